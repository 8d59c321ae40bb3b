// What run.mjs and connect.mjs share: the job they are given, and what they print.
//
// The job is one JSON object in the first argument:
//   url       where to POST
//   threadId  the thread
//   messages  what the client already shows (default: nothing)
//   turns     run.mjs: [{runId, content}], one user message and one run each
//
// On standard output, one JSON object a line: {"event": TYPE} as the client gets to see each event, then
// {"done": {messages, state, pendingInterrupts, error}} with what it holds at the end.

export const job = JSON.parse(process.argv[2]);

const print = (value, then) => process.stdout.write(JSON.stringify(value) + "\n", then);

export const subscriber = { onEvent: ({ event }) => print({ event: event.type }) };

// follow awaits the client's work, prints what it holds, also when it failed, and ends the process: a client that
// gave up on a stream leaves the connection open.
export async function follow(agent, work) {
  let error = null;
  try {
    await work();
  } catch (cause) {
    error = String(cause?.message ?? cause);
  }
  const { messages, state, pendingInterrupts } = agent;
  print({ done: { messages, state, pendingInterrupts, error } }, () => process.exit());
}
