// A process that edits lines of one file, each its own: edit-worker.ts <root> <first> <end>. It says "ready", begins with the first
// byte of its input, and ends with 0 where every edit was reported as done.
import { once } from 'node:events';
import { createWorkspaceTools } from '../../src/tools/workspace/workspace-tools.ts';
import { contextOf } from './workspace-fixture.ts';

const [root = '', first = '', end = ''] = process.argv.slice(2);
const edit = createWorkspaceTools({ root }).find((tool) => tool.name === 'edit_file');
process.stdout.write('ready');
await once(process.stdin, 'data');
process.stdin.unref();
for (let no = Number(first); no < Number(end); no += 1) {
  const input = { path: 'shared.txt', oldText: `slot-${no}: todo;`, newText: `slot-${no}: done;` };
  await edit?.execute(input, contextOf(new AbortController().signal));
}
process.exit(0);
