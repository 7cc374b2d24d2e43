import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { inject } from 'vitest';
import { packPackages } from '../../packages/build.ts';
import { ROOT } from '../support/pasted.ts';

/** What the packages are made of. */
const INPUTS = [
  ...['agents', 'bin', 'console', 'docs', 'migrations', 'packages', 'simulator', 'src', 'workers'],
  ...['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json'],
  ...['CHANGELOG.md', 'LICENSE', 'README.md'],
];

const PLACE = path.join(tmpdir(), 'baton-packed');

/** Of the advisory lock that one builder holds: a build writes into `dist` of this repository. */
const LOCK = 7_301_946;

const KEPT_MS = 3_600_000;

/** The tarballs that `npm pack` makes of the packages. */
export type Packed = Readonly<{ server: string; client: string; create: string }>;

let packing: Promise<Packed> | undefined;

/**
 * Builds and packs the packages of these sources, once: other processes wait for the first, and a later run finds the
 * tarballs as long as no source has changed.
 */
export function packAll(): Promise<Packed> {
  packing ??= packOnce();
  return packing;
}

async function packOnce(): Promise<Packed> {
  const folder = path.join(PLACE, await hashOfInputs());
  const client = new pg.Client({ connectionString: inject('postgres').adminUrl });
  await client.connect();
  try {
    await client.query('select pg_advisory_lock($1)', [LOCK]);
    if (!existsSync(folder)) await packInto(folder);
  } finally {
    await client.end();
  }
  const tarball = (name: string) => path.join(folder, `${name}.tgz`);
  return { server: tarball('server'), client: tarball('client'), create: tarball('create-baton-run') };
}

async function packInto(folder: string): Promise<void> {
  await removeOld();
  const unfinished = `${folder}-unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { recursive: true });
  for (const [name, tarball] of Object.entries(await packPackages(unfinished))) {
    await rename(tarball, path.join(unfinished, `${name}.tgz`));
    await rm(path.join(unfinished, name), { recursive: true });
  }
  await rename(unfinished, folder);
}

/** Those of other sources, unless a test of a moment ago may still read them. */
async function removeOld(): Promise<void> {
  for (const name of await readdir(PLACE).catch(() => [])) {
    const { mtimeMs } = await stat(path.join(PLACE, name));
    if (Date.now() - mtimeMs > KEPT_MS) await rm(path.join(PLACE, name), { recursive: true, force: true });
  }
}

async function hashOfInputs(): Promise<string> {
  const hash = createHash('sha256');
  for (const input of INPUTS) {
    const isFolder = (await stat(path.join(ROOT, input))).isDirectory();
    const below = isFolder ? await readdir(path.join(ROOT, input), { recursive: true, withFileTypes: true }) : [];
    const files = below.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
    for (const file of isFolder ? files.toSorted() : [path.join(ROOT, input)]) {
      hash.update(path.relative(ROOT, file)).update('\0');
      hash.update(await readFile(file)).update('\0');
    }
  }
  return hash.digest('hex').slice(0, 32);
}
