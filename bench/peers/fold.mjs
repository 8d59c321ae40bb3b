// Has the official client fold the events of one run, JSON lines on standard input, and prints one JSON object: the
// seconds that took, decoding included (the less of the clock's and the processors'), and what came of it.
import { readFileSync } from "node:fs";
import { AbstractAgent } from "@ag-ui/client";
import { from } from "rxjs";

const lines = readFileSync(0, "utf8").split("\n").filter(Boolean);

class Recorded extends AbstractAgent {
  run() {
    return from((function* () {
      for (const line of lines) yield JSON.parse(line);
    })());
  }
}

const agent = new Recorded({ threadId: "thread-1" });
const clock = process.hrtime.bigint(), processors = process.cpuUsage();
await agent.runAgent({ runId: "run-1" });
const wall = Number(process.hrtime.bigint() - clock) / 1e9;
const used = process.cpuUsage(processors);

process.stdout.write(JSON.stringify({
  seconds: Math.min(wall, (used.user + used.system) / 1e6),
  messages: agent.messages.length,
  text: agent.messages.reduce((sum, m) => sum + (m.content?.length ?? 0), 0),
  state: JSON.stringify(agent.state ?? null).length,
}) + "\n");
