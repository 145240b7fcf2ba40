// The official TypeScript client of MCP at Toolcrib: lists the tools, then searches,
// describes and calls. Usage: node client.mjs URL QUERY TOOL ARGUMENTS
// Prints one JSON object {tools, instructions, hits, described, result}.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [target, query, tool, args] = process.argv.slice(2);
const transport = target.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args: JSON.parse(process.env.SERVER_ARGS ?? "[]"), stderr: "inherit" });
const client = new Client({ name: "typescript-client", version: "1.0.0" });
await client.connect(transport);
const { tools } = await client.listTools();
const call = async (name, args) => {
  const r = await client.callTool({ name, arguments: args });
  if (r.isError) throw new Error(`${name}: ${JSON.stringify(r)}`);
  return r;
};
const found = await call("tool_search", { query });
const described = await call("tool_describe", { id: tool });
const result = await call("tool_call", { id: tool, args: JSON.parse(args) });
console.log(JSON.stringify({
  tools: tools.map((t) => t.name),
  instructions: client.getInstructions(),
  hits: found.structuredContent.hits.map((h) => h.id),
  described: described.structuredContent,
  result,
}));
if (transport.terminateSession) await transport.terminateSession();
await client.close();
