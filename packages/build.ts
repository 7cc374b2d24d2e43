import { execFile } from 'node:child_process';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';

const ROOT = path.join(import.meta.dirname, '..');
const HERE = import.meta.dirname;

type Versions = Readonly<Record<string, string>>;
type Manifest = Record<string, unknown> & Readonly<{ dependencies?: Versions; devDependencies?: Versions }>;

const readManifest = async (folder: string): Promise<Manifest> =>
  JSON.parse(await readFile(path.join(folder, 'package.json'), 'utf8'));

const writeManifest = (folder: string, manifest: object): Promise<void> =>
  writeFile(path.join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);

/** The manifest as it is published: with the version and the license of Baton. `private` keeps the unbuilt one back. */
async function publishedManifest(name: string): Promise<object> {
  const { private: _private, ...own } = await readManifest(path.join(HERE, name));
  const { version, license } = await readManifest(ROOT);
  return { ...own, version, license };
}

/** Makes a folder anew with what every package has. */
async function startPackage(name: string, target: string): Promise<void> {
  await rm(target, { recursive: true, force: true });
  await mkdir(target, { recursive: true });
  await writeManifest(target, await publishedManifest(name));
  await cp(path.join(HERE, name, 'README.md'), path.join(target, 'README.md'));
  await cp(path.join(ROOT, 'LICENSE'), path.join(target, 'LICENSE'));
}

/** `@baton-run/client`: all of `src/client` as one module, and its types. */
async function buildClient(target: string): Promise<void> {
  await startPackage('client', target);
  await build({
    entryPoints: [path.join(ROOT, 'src/client/client.ts')],
    outfile: path.join(target, 'client.js'),
    bundle: true,
    minify: true,
    sourcemap: true,
    format: 'esm',
    // Modules of Node are unknown to it, and fail the build.
    platform: 'neutral',
    target: 'es2022',
  });
  const compiler = path.join(ROOT, 'node_modules/typescript/bin/tsc');
  const options = ['--project', path.join(HERE, 'client'), '--outDir', path.join(target, 'types')];
  await promisify(execFile)(process.execPath, [compiler, ...options]);
}

/** `create-baton-run`: its template depends on this version of Baton, and on what Baton is tested with. */
async function buildCreate(target: string): Promise<void> {
  await startPackage('create-baton-run', target);
  for (const name of ['create-baton-run.js', 'template']) {
    await cp(path.join(HERE, 'create-baton-run', name), path.join(target, name), { recursive: true });
  }
  const root = await readManifest(ROOT);
  const known: Versions = {
    '@baton-run/server': String(root['version']),
    ...root.devDependencies,
    ...root.dependencies,
  };
  const tested = (names: Versions = {}): Versions =>
    Object.fromEntries(Object.keys(names).map((name) => [name, `^${known[name]}`]));
  const template = path.join(target, 'template');
  const { dependencies, devDependencies, ...rest } = await readManifest(template);
  await writeManifest(template, {
    ...rest,
    dependencies: tested(dependencies),
    devDependencies: tested(devDependencies),
  });
}

/** Makes the folders `client` and `create-baton-run`, each of which `npm pack` and `npm publish` take. */
export async function buildPackages(folder: string): Promise<void> {
  await Promise.all([buildClient(path.join(folder, 'client')), buildCreate(path.join(folder, 'create-baton-run'))]);
}

if (import.meta.main) await buildPackages(path.join(ROOT, 'dist/packages'));
