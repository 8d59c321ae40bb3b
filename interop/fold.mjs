// What the official client holds after every event of a stream, for thousands of streams in one process.
//
// Standard input has one request a line, a JSON list of streams; a stream is a list of lines, each the text of one event
// as a server would send it. Standard output has one answer a line, a list with one list for each stream: for each event
// "N MESSAGES STATE INTERRUPTS", its number from 1 and the SHA-256 of the canonical JSON (RFC 8785) of what the client
// then holds. The event that ends the stream has " ERROR" behind that and is the last one. With the argument "text" the
// canonical JSON itself stands in place of the digests. What has no JSON is "-".
//
// Each event is settled before the next one comes: of a burst, the client forgets what a fatal event follows. Ids that
// the client would draw at random are counted instead, from 1 in each stream.
import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";

let drawn = 0;
crypto.randomUUID = () => "00000000-0000-4000-8000-" + (++drawn).toString(16).padStart(12, "0");
syncBuiltinESMExports(); // before the client is loaded, which takes the function by its name

process.env.NODE_ENV = "production";
console.warn = console.error = () => {}; // warnings by the thousand

const { AbstractAgent } = await import("@ag-ui/client");
const { Subject } = await import("rxjs"); // the client's own: another copy would be a stranger to it

// A patch that goes through an inherited name would otherwise leave something there for the streams behind it.
for (const prototype of [Object.prototype, Array.prototype]) {
  for (const name of Object.getOwnPropertyNames(prototype)) {
    if (typeof prototype[name] === "function") Object.freeze(prototype[name]);
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

class Reader extends AbstractAgent {
  events = new Subject();

  connect() {
    return this.events;
  }
}

// canonical throws on what refers to itself, by running out of stack, and on functions.
function canonical(value) {
  if (value === undefined || value === null) return "null";
  if (typeof value !== "object") {
    const text = JSON.stringify(value);
    if (text === undefined) throw new TypeError(`a ${typeof value} is not JSON`);
    return text;
  }
  if (Array.isArray(value)) return "[" + value.map(canonical).join() + "]";
  const members = [];
  for (const name of Object.keys(value).sort()) {
    if (value[name] !== undefined) members.push(JSON.stringify(name) + ":" + canonical(value[name]));
  }
  return "{" + members.join() + "}";
}

const asText = process.argv[2] === "text";

// part shows one thing that the client holds; most events leave most of them as they were.
function part() {
  let before, shown;
  return (value) => {
    let text;
    try {
      text = canonical(value);
    } catch {
      return "-";
    }
    if (text !== before) {
      before = text;
      shown = asText ? text : crypto.createHash("sha256").update(text, "utf8").digest("hex");
    }
    return shown;
  };
}

// event is what the client's reader of server-sent events makes of a line.
function event(line) {
  const value = JSON.parse(line);
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new TypeError("not an object");
  if (typeof value.type !== "string" || value.type === "") throw new TypeError("no type");
  return value;
}

async function fold(lines) {
  drawn = 0;
  const agent = new Reader({ agentId: "reader", threadId: "thread" });
  let failed = false;
  const done = agent.connectAgent({ runId: "reader" }).catch(() => {
    failed = true;
  });
  await settled();
  const parts = [part(), part(), part()];
  const answer = [];
  for (let n = 1; n <= lines.length && !failed; n++) {
    try {
      agent.events.next(event(lines[n - 1]));
    } catch (cause) {
      agent.events.error(cause);
    }
    await settled();
    const held = [agent.messages, agent.state, agent.pendingInterrupts];
    answer.push([n, ...held.map((value, i) => parts[i](value))].join(" ") + (failed ? " ERROR" : ""));
  }
  agent.events.complete();
  await done;
  return answer;
}

let rest = "";
process.stdin.setEncoding("utf8");
for await (const chunk of process.stdin) {
  const requests = (rest + chunk).split("\n");
  rest = requests.pop();
  for (const request of requests) {
    const answers = [];
    for (const stream of JSON.parse(request)) answers.push(await fold(stream));
    process.stdout.write(JSON.stringify(answers) + "\n");
  }
}
