import { existsSync } from 'node:fs';
import path from 'node:path';
import { listAgentFiles } from '../agents/load-agents.ts';
import { declarationFolders } from '../declarations/folders.ts';
import { BatonError } from '../domain/errors.ts';
import type { Config } from '../platform/config.ts';
import { VARIABLES } from '../platform/settings.ts';
import { isInside, realPathOf } from '../tools/workspace/workspace-path.ts';

/** A file or folder of Baton itself. A tool that could change it could change the permissions of agents. */
type OwnPlace = Readonly<{ what: string; path: string }>;

/** Parts of the package that a process of the service runs or reads at its start. */
const PACKAGE_PARTS = ['package.json', 'bin', 'dist', 'migrations', 'node_modules', 'src', 'workers'];
/** A log cuts long messages, and more places would not help. */
const NAMED_PLACES = 3;

/**
 * Refuses a workspace folder that contains agents, data, configuration or code of Baton, or lies within them, by real
 * paths: the file tools of every agent reach the whole workspace. Neither path has to exist yet.
 * @throws BatonError `config_invalid` that names the places
 */
export async function checkWorkspaceIsApart(config: Config): Promise<void> {
  const workspace = await realPlace(VARIABLES.workspaceDir, config.workspaceDir);
  const shared: string[] = [];
  for (const { what, path: place } of ownPlaces(config)) {
    const real = await realPlace(what, place);
    if (isInside(workspace, real) || isInside(real, workspace)) shared.push(`${what} (${real})`);
  }
  if (shared.length === 0) return;
  const named = shared.slice(0, NAMED_PLACES).join(', ');
  const more = shared.length > NAMED_PLACES ? ` and ${shared.length - NAMED_PLACES} more` : '';
  throw new BatonError(
    'config_invalid',
    `${VARIABLES.workspaceDir} is ${workspace}, where the tools of agents could reach ${named}${more}: ` +
      'give the workspace a folder of its own, such as "workspace"',
  );
}

async function realPlace(what: string, place: string): Promise<string> {
  try {
    return await realPathOf(path.resolve(place));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new BatonError('config_invalid', `${what}: ${place} cannot be looked up: ${why}`, { cause });
  }
}

function ownPlaces(config: Config): OwnPlace[] {
  const { databaseUrl, dataDir, agentsDir, configFile } = config;
  const settings = ['providersFile', 'modelsFile', 'mcpFile', 'hooksFile'] as const;
  const files = [
    { what: 'the file of BATON_CONFIG', path: configFile },
    ...settings.map((key) => ({ what: `the file of ${VARIABLES[key]}`, path: config[key] })),
  ];
  const isDataUsed = databaseUrl === undefined || existsSync(dataDir);
  return [
    { what: `the agents of ${VARIABLES.agentsDir}`, path: agentsDir },
    ...agentFiles(agentsDir),
    ...Object.entries(declarationFolders(agentsDir)).flatMap(([what, folder]) =>
      existsSync(folder) ? [{ what: `the declared ${what}`, path: folder }] : [],
    ),
    ...(isDataUsed ? [{ what: `the data of ${VARIABLES.dataDir}`, path: dataDir }] : []),
    ...files.flatMap(({ what, path: file }) => (file === undefined ? [] : [{ what, path: file }])),
    ...environmentFiles().map((file) => ({ what: 'a file of variables', path: file })),
    ...packageParts().map((part) => ({ what: "a part of Baton's package", path: part })),
  ];
}

/** Each file may be a link to another place. A folder that cannot be read is refused where agents are loaded. */
function agentFiles(folder: string): OwnPlace[] {
  if (!existsSync(folder)) return [];
  return listAgentFiles(folder).map((file) => ({ what: 'the agent', path: path.join(folder, file) }));
}

/** Files of environment variables: Compose's, and those that Node was started with. */
function environmentFiles(): string[] {
  const envFiles = process.execArgv.flatMap(
    (option) => /^--env-file(?:-if-exists)?=(.+)$/.exec(option)?.slice(1) ?? [],
  );
  return [...(existsSync('.env') ? ['.env'] : []), ...envFiles];
}

function packageParts(): string[] {
  const root = packageRoot(import.meta.dirname);
  return PACKAGE_PARTS.map((part) => path.join(root, part)).filter((part) => existsSync(part));
}

/** The closest folder above that has a manifest, for the sources as well as for the build. */
function packageRoot(folder: string): string {
  const parent = path.dirname(folder);
  return existsSync(path.join(folder, 'package.json')) || parent === folder ? folder : packageRoot(parent);
}
