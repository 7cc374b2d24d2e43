import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';

const lockSchema = z.object({
  packages: z.record(z.string(), z.object({ hasInstallScript: z.boolean().default(false) })),
});

/** The packages that npm has put into `node_modules` of a folder. */
export async function installedIn(folder: string): Promise<Readonly<{ name: string; hasInstallScript: boolean }>[]> {
  const { packages } = lockSchema.parse(
    JSON.parse(await readFile(path.join(folder, 'node_modules/.package-lock.json'), 'utf8')),
  );
  return Object.entries(packages).map(([place, { hasInstallScript }]) => ({
    name: place.slice(place.lastIndexOf('node_modules/') + 'node_modules/'.length),
    hasInstallScript,
  }));
}

/** What the files of a folder take on a disk with blocks of 4 KiB. */
export async function megabytesOf(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
  let blocks = entries.length - files.length;
  for (const file of files) blocks += Math.ceil((await stat(file)).size / 4_096);
  return (blocks * 4_096) / 1_048_576;
}
