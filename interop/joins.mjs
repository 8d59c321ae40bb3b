// Many front ends in one process, each opening a thread as connect.mjs does.
//
// The first argument is a JSON list of {url, threadId}. On standard output, one JSON object a line: {"joined": N} when the N-th has
// its first event, {"left": N, "holds": {messages, state, pendingInterrupts, error}} when its stream has ended.
import { HttpAgent } from "@ag-ui/client";

class ConnectingAgent extends HttpAgent {
  connect(input) {
    return this.run(input);
  }
}

const print = (value) => process.stdout.write(JSON.stringify(value) + "\n");

async function join({ url, threadId }, n) {
  const agent = new ConnectingAgent({ url, threadId });
  let seen = false;
  let error = null;
  try {
    await agent.connectAgent({}, {
      onEvent: () => {
        if (!seen) print({ joined: n });
        seen = true;
      },
    });
  } catch (cause) {
    error = String(cause?.message ?? cause);
  }
  const { messages, state, pendingInterrupts } = agent;
  print({ left: n, holds: { messages, state, pendingInterrupts, error } });
}

await Promise.all(JSON.parse(process.argv[2]).map(join));
