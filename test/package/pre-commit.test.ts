import { cp, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, it } from 'vitest';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { ROOT, run } from './consumer.ts';

it('the hook refuses a commit whose staged file is not formatted', async () => {
  await using folder = await temporaryFolder();
  for (const name of ['.githooks', 'biome.json', 'package.json']) {
    await cp(path.join(ROOT, name), path.join(folder.path, name), { recursive: true });
  }
  await symlink(path.join(ROOT, 'node_modules'), path.join(folder.path, 'node_modules'));
  await writeFile(path.join(folder.path, 'unformatted.ts'), 'export const one   = 1\n');
  const git = (...args: string[]) => run('git', args, { cwd: folder.path });
  await git('init', '--quiet', '--initial-branch=main');
  await git('config', 'core.hooksPath', '.githooks');
  await git('add', 'unformatted.ts');
  const identity = ['-c', 'user.name=Ann', '-c', 'user.email=ann@example.com'];
  const refused = await git(...identity, 'commit', '--message', 'Add one').catch((error: { stderr: string }) => error);
  expect(refused.stderr).toContain('unformatted.ts');
  await expect(git('rev-parse', 'HEAD')).rejects.toThrow();
});
