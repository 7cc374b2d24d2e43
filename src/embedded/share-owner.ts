import { lchown, lstat } from 'node:fs/promises';

/** Gives a file that root created to the owner of an existing directory, who could not use it otherwise. */
export async function shareOwner(path: string, directory: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = await lstat(directory);
  // `lchown` changes a link itself, not its target.
  await lchown(path, uid, gid);
}
