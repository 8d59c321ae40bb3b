// A front end that opens a thread it knows nothing of: the client's own connectAgent, over HTTP. The official
// HttpAgent brings no connect of its own, so this one POSTs like run does, to the URL of the job.
import { HttpAgent } from "@ag-ui/client";
import { follow, job, subscriber } from "./client.mjs";

class ConnectingAgent extends HttpAgent {
  connect(input) {
    return this.run(input);
  }
}

const agent = new ConnectingAgent({ url: job.url, threadId: job.threadId, initialMessages: job.messages ?? [] });

await follow(agent, () => agent.connectAgent({}, subscriber));
