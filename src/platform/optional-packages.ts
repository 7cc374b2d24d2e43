import { createRequire } from 'node:module';
import { BatonError } from '../domain/errors.ts';
import { ROOT_FOLDER } from './root-folder.ts';

/** A part of Baton whose packages are installed only where somebody asks for them. `purpose`: in the plural. */
export type OptionalNeed = Readonly<{ purpose: string; packages: readonly string[] }>;

/**
 * Loads code that imports optional packages.
 * @throws BatonError `config_invalid` that says how the missing ones are installed
 */
export async function loadOptional<T>(need: OptionalNeed, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if (!need.packages.includes(missingPackage(error) ?? '')) throw error;
    throw refusal(need, error);
  }
}

const require = createRequire(import.meta.url);

/**
 * Finds at the start what `loadOptional` would refuse later.
 * @param key what of the configuration needs it; the message begins with it
 * @throws BatonError `config_invalid`
 */
export function checkInstalled(need: OptionalNeed, key: string): void {
  for (const name of need.packages) {
    try {
      require.resolve(`${name}/package.json`);
    } catch (error) {
      // Packages that are there may hide their manifest.
      if (error instanceof Error && 'code' in error && error.code === 'MODULE_NOT_FOUND') {
        throw refusal(need, error, `${key}: `);
      }
    }
  }
}

type Versions = Readonly<Record<string, string>>;
type Manifest = Readonly<{ peerDependencies?: Versions; optionalDependencies?: Versions }>;

/** The command that installs optional packages in the versions that this Baton is tested with. */
export function installCommand(packages: readonly string[]): string {
  // A clone has in `optionalDependencies` what the published package has as its optional peers.
  const manifest: Manifest = require(`${ROOT_FOLDER}/package.json`);
  const versions = { ...manifest.optionalDependencies, ...manifest.peerDependencies };
  const named = packages.map((name) =>
    versions[name] === undefined ? name : `${name}@${versions[name].replace('^', '')}`,
  );
  return `npm install ${named.join(' ')}`;
}

/** Null: another file is missing, or the error is of another kind. */
const missingPackage = (error: unknown): string | null =>
  (error instanceof Error && /^Cannot find package '([^']+)'/.exec(error.message)?.[1]) || null;

const refusal = ({ purpose, packages }: OptionalNeed, cause: unknown, prefix = ''): BatonError =>
  new BatonError('config_invalid', `${prefix}${purpose} need a package: ${installCommand(packages)}`, { cause });
