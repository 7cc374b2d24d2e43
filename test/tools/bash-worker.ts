// A process that runs one command with the bash tool: bash-worker.ts <root> <command>. For tests
// that kill it or starve it.
import { createWorkspaceTools } from '../../src/tools/workspace/workspace-tools.ts';
import { contextOf } from './workspace-fixture.ts';

const [root = '', command = ''] = process.argv.slice(2);
const bash = createWorkspaceTools({ root }).find((tool) => tool.name === 'bash');
process.stdout.write(String(await bash?.execute({ command }, contextOf(new AbortController().signal))));
