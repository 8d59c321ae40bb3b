// A front end that talks: HttpAgent sends each turn of the job and runs the agent.
import { HttpAgent } from "@ag-ui/client";
import { follow, job, subscriber } from "./client.mjs";

const agent = new HttpAgent({ url: job.url, threadId: job.threadId, initialMessages: job.messages ?? [] });

await follow(agent, async () => {
  for (const { runId, content } of job.turns) {
    agent.addMessage({ id: `user-${runId}`, role: "user", content });
    await agent.runAgent({ runId }, subscriber);
  }
});
