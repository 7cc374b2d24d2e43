import { execFile } from 'node:child_process';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';

const ROOT = path.join(import.meta.dirname, '..');
const HERE = import.meta.dirname;

const run = promisify(execFile);

type Versions = Readonly<Record<string, string>>;
type Manifest = Record<string, unknown> &
  Readonly<{
    dependencies?: Versions;
    devDependencies?: Versions;
    optionalDependencies?: Versions;
    exports?: Readonly<Record<string, Readonly<Record<string, string>>>>;
    files?: readonly string[];
  }>;

const readManifest = async (folder: string): Promise<Manifest> =>
  JSON.parse(await readFile(path.join(folder, 'package.json'), 'utf8'));

const writeManifest = (folder: string, manifest: object): Promise<void> =>
  writeFile(path.join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);

const COMMON = ['version', 'license', 'homepage', 'repository', 'bugs', 'keywords'] as const;

/**
 * The manifest as it is published: with what all packages of Baton have in common. `private` keeps the unbuilt one back,
 * and a publication without provenance is refused by npm.
 */
async function publishedManifest({ private: _private, ...own }: Manifest): Promise<Manifest> {
  const root = await readManifest(ROOT);
  const common = Object.fromEntries(COMMON.map((name) => [name, root[name]]));
  return { ...own, ...common, publishConfig: { access: 'public', provenance: true } };
}

/** Makes a folder anew with what every package has. */
async function startPackage(source: string, target: string, manifest: Manifest): Promise<void> {
  await rm(target, { recursive: true, force: true });
  await mkdir(target, { recursive: true });
  await writeManifest(target, await publishedManifest(manifest));
  await cp(path.join(source, 'README.md'), path.join(target, 'README.md'));
  await cp(path.join(ROOT, 'LICENSE'), path.join(target, 'LICENSE'));
}

/**
 * `@baton-run/server`: the built service, with the sources that its maps and an editor's way to a definition lead to. npm would install the optional dependencies of a clone with it unasked, so
 * here they are peers that are installed by name.
 */
export async function buildServer(target: string): Promise<void> {
  const { scripts, devDependencies, overrides, allowScripts, optionalDependencies, ...root } = await readManifest(ROOT);
  const exported = Object.entries(root.exports ?? {}).map(([name, { 'baton-source': _, ...built }]) => [name, built]);
  await run('npm', ['run', '--silent', 'build'], { cwd: ROOT });
  await startPackage(ROOT, target, {
    ...root,
    exports: Object.fromEntries(exported),
    peerDependencies: compatible(optionalDependencies),
    peerDependenciesMeta: Object.fromEntries(
      Object.keys(optionalDependencies ?? {}).map((name) => [name, { optional: true }]),
    ),
  });
  for (const name of (root.files ?? []).filter((file) => !file.startsWith('!'))) {
    await cp(path.join(ROOT, name), path.join(target, name), { recursive: true });
  }
  for (const name of ['LICENSE', 'NOTICE']) {
    await cp(path.join(HERE, 'server', `swagger-ui-${name}`), path.join(target, 'dist/swagger-ui', name));
  }
}

/** The versions that Baton is tested with, and later ones that promise the same. */
const compatible = (versions: Versions = {}): Versions =>
  Object.fromEntries(Object.entries(versions).map(([name, version]) => [name, `^${version}`]));

/** `@baton-run/client`: all of `src/client` as one module, its types, and the sources to which the maps of both lead. */
export async function buildClient(target: string): Promise<void> {
  const source = path.join(HERE, 'client');
  await startPackage(source, target, await readManifest(source));
  await cp(path.join(ROOT, 'src/client'), path.join(target, 'src'), { recursive: true });
  await build({
    entryPoints: [path.join(target, 'src/client.ts')],
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
  await run(process.execPath, [compiler, '--project', source, '--outDir', path.join(target, 'types')]);
}

/** `create-baton-run`: its template depends on this version of Baton, and on what Baton is tested with. */
export async function buildCreate(target: string): Promise<void> {
  const source = path.join(HERE, 'create-baton-run');
  await startPackage(source, target, await readManifest(source));
  for (const name of ['create-baton-run.js', 'template']) {
    await cp(path.join(source, name), path.join(target, name), { recursive: true });
  }
  const root = await readManifest(ROOT);
  const tested: Versions = compatible({
    '@baton-run/server': String(root['version']),
    ...root.devDependencies,
    ...root.optionalDependencies,
    ...root.dependencies,
  });
  const template = path.join(target, 'template');
  const manifest = await readManifest(template);
  const dependencies = ['dependencies', 'optionalDependencies', 'devDependencies'] as const;
  const pinned = dependencies.map((kind) => [
    kind,
    Object.fromEntries(Object.keys(manifest[kind] ?? {}).map((name) => [name, tested[name]])),
  ]);
  await writeManifest(template, { ...manifest, ...Object.fromEntries(pinned) });
}

/** Makes the folders `server`, `client` and `create-baton-run`, each of which `npm pack` and `npm publish` take. */
export async function buildPackages(folder: string): Promise<void> {
  await Promise.all([
    buildServer(path.join(folder, 'server')),
    buildClient(path.join(folder, 'client')),
    buildCreate(path.join(folder, 'create-baton-run')),
  ]);
}

const FOLDERS = ['server', 'client', 'create-baton-run'] as const;

/** The paths of the tarballs, by the folders of `packages`. */
type Tarballs = Readonly<Record<(typeof FOLDERS)[number], string>>;

/** Makes the packages, and packs each into the folder as npm publishes it. */
export async function packPackages(folder: string): Promise<Tarballs> {
  await buildPackages(folder);
  const [server = '', client = '', create = ''] = await Promise.all(
    FOLDERS.map(async (name) => {
      const args = ['pack', '--silent', '--pack-destination', folder];
      const { stdout } = await run('npm', args, { cwd: path.join(folder, name) });
      return path.join(folder, stdout.trim());
    }),
  );
  return { server, client, 'create-baton-run': create };
}

if (import.meta.main) {
  const { server, client, 'create-baton-run': create } = await packPackages(path.join(ROOT, 'dist/packages'));
  process.stdout.write(`Packed. In a project of yours:

  npm install ${server}
  npm install ${client}

A new project:

  npx --package ${create} create-baton-run my-agent
  cd my-agent && npm install ${server}
`);
}
