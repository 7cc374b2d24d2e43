// A process that makes one call to the server of mcp-server.ts: mcp-worker.ts <command> <args…>.
// For a test that kills it.
import { createMcpFixture } from './mcp-fixture.ts';

const [command = '', ...args] = process.argv.slice(2);
const fixture = createMcpFixture({ own: { command, args } });
await fixture.call(await fixture.pin([{ mcp: 'own' }]), 'own__hang');
