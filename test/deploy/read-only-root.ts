import { spawnSync } from 'node:child_process';

/**
 * In mounts of its own: the folder $1 stays as it is, the file systems of / and of the folder $2 become read-only, as
 * the root of a container in Compose. The rest of the arguments is the command that this process becomes.
 */
const MOUNTS = `
set -e
mount --bind "$1" "$1"
mount --bind "$2" "$2"
mount -o remount,bind,ro "$2"
mount -o remount,bind,ro /
cd "$2"
shift 2
exec "$@"
`;

/** @returns what precedes a command that may write to the folder `writable` alone; null if this system has no such thing */
export function onReadOnlyRoot(writable: string, app: string): readonly string[] | null {
  const asRoot = process.getuid?.() === 0 ? [] : ['--user', '--map-root-user'];
  const unshare = ['unshare', ...asRoot, '--mount', '--propagation', 'private'];
  const prefix = [...unshare, 'sh', '-c', MOUNTS, 'sh', writable, app];
  const canWrite = (folder: string): boolean => {
    const [program = '', ...args] = [...prefix, 'test', '-w', folder];
    return spawnSync(program, args).status === 0;
  };
  return canWrite(writable) && !canWrite('/') && !canWrite(app) ? prefix : null;
}
