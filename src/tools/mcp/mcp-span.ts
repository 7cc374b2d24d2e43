import { type Client, ProtocolError } from '@modelcontextprotocol/client';
import { type Attributes, type Span, SpanKind } from '@opentelemetry/api';
import type { McpServerConfig } from '../../agents/mcp-servers.ts';
import { addressOf, describeActiveSpan, inSpan } from '../../platform/tracing.ts';

type Peer = Pick<McpServerConfig, 'url'>;

/**
 * Asks a server inside a client span by the conventions for MCP. A call of a tool has none of its own: it describes the
 * tool's span (https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md).
 */
export function inMcpSpan<T>(peer: Peer, method: string, work: (span: Span) => Promise<T>): Promise<T> {
  const attributes = { ...attributesOf(peer), 'mcp.method.name': method };
  return inSpan(method, { kind: SpanKind.CLIENT, attributes, errorType: codeOf }, work);
}

/** Names the span after the request that the server took: since 2026-07-28 there is nothing to initialize. */
export function nameConnectSpan(span: Span, client: Client): void {
  const method = client.getProtocolEra() === 'modern' ? 'server/discover' : 'initialize';
  span.updateName(method);
  span.setAttributes({ 'mcp.method.name': method, ...revisionOf(client) });
}

/** Does the call of a tool, and describes it in the span of the tool, which is active. */
export async function describeToolCall<T>(peer: Peer, client: Client, work: () => Promise<T>): Promise<T> {
  describeActiveSpan({
    ...attributesOf(peer),
    ...revisionOf(client),
    'mcp.method.name': 'tools/call',
    'gen_ai.tool.type': 'extension',
  });
  try {
    return await work();
  } catch (error) {
    const code = codeOf(error);
    if (code !== null) describeActiveSpan({ 'rpc.response.status_code': code });
    throw error;
  }
}

function attributesOf({ url }: Peer): Attributes {
  if (url === undefined) return { 'network.transport': 'pipe' };
  return { 'network.transport': 'tcp', 'network.protocol.name': 'http', ...addressOf(url) };
}

function revisionOf(client: Client): Attributes {
  const version = client.getNegotiatedProtocolVersion();
  return version === undefined ? {} : { 'mcp.protocol.version': version };
}

/** The code of a JSON-RPC error; null for any other. */
const codeOf = (error: unknown): string | null => (error instanceof ProtocolError ? String(error.code) : null);
