import { z } from 'zod';
import { createMcpFixture } from '../../tools/mcp-fixture.ts';

/**
 * Baton as a client for the suite, which starts it with the URL of its server: lists the tools as a new session does,
 * then calls them as an agent's run does: as the suite says, or each of them with arguments that fit its schema.
 */
const contextSchema = z.object({
  toolCalls: z.array(z.object({ name: z.string(), arguments: z.unknown() })).optional(),
});
const url = process.argv.at(-1) ?? '';
const context = contextSchema.parse(JSON.parse(process.env['MCP_CONFORMANCE_CONTEXT'] ?? '{}'));
await using fixture = createMcpFixture({ suite: { url, trust: true } });
const agent = await fixture.pin([{ mcp: 'suite' }]);
const listed = agent.pinnedTools?.['suite']?.tools ?? [];
const calls = context.toolCalls ?? listed.map(({ name, inputSchema }) => ({ name, arguments: exampleOf(inputSchema) }));
for (const call of calls) {
  const outcome = await fixture.call(agent, `suite__${call.name}`, call.arguments).catch(String);
  process.stdout.write(`${call.name}: ${JSON.stringify(outcome)}\n`);
}

/** An object that fits the schema, as far as the suite's schemas go. */
function exampleOf(schema: unknown): unknown {
  const {
    type,
    properties = {},
    items = {},
  } = Object(schema) as {
    type?: unknown;
    properties?: Record<string, unknown>;
    items?: unknown;
  };
  switch (type) {
    case 'object':
      // A tool that has another one's schema given back to it.
      if ('schema' in properties) return { schema: listed.find(({ name }) => !name.includes('echo'))?.inputSchema };
      return Object.fromEntries(Object.entries(properties).map(([name, property]) => [name, exampleOf(property)]));
    case 'number':
    case 'integer':
      return 5;
    case 'boolean':
      return true;
    case 'array':
      return [exampleOf(items)];
    default:
      return 'text';
  }
}
