// A whole plugin in Node: one tool, on the socket that was passed on (LISTEN_FDS) or on PORT.

import { createServer } from "node:http";
import { ContextError, ContextVerifier } from "./context.mjs";

const MAX_BODY = 4 * 1024 * 1024;
const verifier = new ContextVerifier(JSON.parse(process.env.ROWGATE_CONTEXT_JWKS), {
  audience: process.env.ROWGATE_PLUGIN ?? "node",
  issuer: process.env.ROWGATE_CONTEXT_ISSUER ?? null,
});
const complete = (members) => ({ resultType: "complete", ...members });
const listed = (members) => complete({ ttlMs: 0, cacheScope: "private", ...members });
const WHOAMI = {
  name: "whoami",
  title: "Who am I",
  inputSchema: { type: "object", properties: {} },
  annotations: { readOnlyHint: true },
};
const ANSWERS = {
  "server/discover": () => listed({ supportedVersions: ["2026-07-28"], capabilities: { tools: {} } }),
  "tools/list": () => listed({ tools: [WHOAMI] }),
  "tools/call": (params, context) =>
    params.name === "whoami" ? complete({ content: [{ type: "text", text: context.sub ?? context.kind }] }) : null,
};

const server = createServer(async (request, response) => {
  const answer = (status, body) => {
    response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
  };
  if (request.method !== "POST") return answer(405, { error: "method_not_allowed" });
  const body = await received(request);
  if (body === null) return answer(413, { error: "body_too_large" });
  const values = (name) => request.headersDistinct[name] ?? [];
  let context;
  try {
    context = verifier.verify(values("rowgate-context"), body, values("authorization"));
  } catch (error) {
    if (error instanceof ContextError) return answer(401, { error: "context_refused", reason: error.reason });
    throw error;
  }
  const { id, method, params } = JSON.parse(body);
  const result = ANSWERS[method]?.(params, context);
  if (result) answer(200, { jsonrpc: "2.0", id, result });
  else if (result === null) answer(200, { jsonrpc: "2.0", id, error: { code: -32602, message: "Unknown tool" } });
  else answer(404, { jsonrpc: "2.0", id, error: { code: -32601, message: "Method not found" } });
});

async function received(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > MAX_BODY) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

const passed = process.env.LISTEN_FDS === "1" && process.env.LISTEN_PID === String(process.pid);
// Longer than the gateway keeps an idle connection.
server.keepAliveTimeout = 75_000;
server.listen(passed ? { fd: 3 } : { host: "127.0.0.1", port: Number(process.env.PORT ?? 0) }, () => {
  const address = server.address();
  console.log(address && address.port ? `listening on http://127.0.0.1:${address.port}/mcp` : "listening");
});
process.on("SIGTERM", () => {
  server.close(() => process.exit(0));
  server.closeIdleConnections();
});
