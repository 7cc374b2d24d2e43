// A process with secrets: apart-worker.ts <root> <command>. It runs the command with the bash tool and as a stdio MCP
// server, and prints both outputs as JSON. In the command $WORKER is the id of this process.
import { startServerProcess } from '../../src/tools/mcp/supervised-server.ts';
import { createWorkspaceTools } from '../../src/tools/workspace/workspace-tools.ts';
import { contextOf } from './workspace-fixture.ts';

const [root = '', given = ''] = process.argv.slice(2);
const command = `WORKER=${process.pid}; ${given}`;
const bash = createWorkspaceTools({ root }).find((tool) => tool.name === 'bash');
const ofBash = String(await bash?.execute({ command }, contextOf(new AbortController().signal)));
const server = await startServerProcess({
  command: '/bin/sh',
  args: ['-c', command],
  cwd: root,
  environment: { PATH: process.env['PATH'] },
  onLine: () => undefined,
});
const ofServer = Buffer.concat(await server.output.toArray()).toString();
await server.stop();
process.stdout.write(JSON.stringify({ ofBash, ofServer }));
