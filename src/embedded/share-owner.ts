import { lchown, lstat } from 'node:fs/promises';

/**
 * Gives something that root has created to the owner of an existing directory; does nothing if we are not root. So a
 * start as root in somebody's directory leaves nothing there that its owner could not use.
 */
export async function shareOwner(path: string, directory: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = await lstat(directory);
  // Of a link it is the link itself: where that leads to is not ours to give.
  await lchown(path, uid, gid);
}
