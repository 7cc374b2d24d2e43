import { mkdir, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, it } from 'vitest';
import { checkWorkspaceIsApart } from '../../src/app/own-places.ts';
import { type Config, loadConfig } from '../../src/platform/config.ts';
import { runNode } from '../deploy/process.ts';
import { scratchDir } from '../embedded/support.ts';
import { ROOT } from '../support/pasted.ts';

type Given = Readonly<{ [Key in keyof Config]?: Config[Key] | undefined }>;

/** The refusal of a configuration with paths in this folder. All paths are separate unless given otherwise. */
async function refusalIn(folder: string, given: Given): Promise<string> {
  const apart = { workspaceDir: 'workspace', agentsDir: 'agents', dataDir: 'data' };
  const paths = Object.entries({ ...apart, ...given }).map(([key, value]) => [
    key,
    path.resolve(folder, String(value)),
  ]);
  try {
    await checkWorkspaceIsApart({ ...loadConfig({}), ...Object.fromEntries(paths) });
    return '';
  } catch (error) {
    return String(error).replaceAll(folder, '~');
  }
}

const REFUSED: readonly (readonly [string, Given, string])[] = [
  ['agents in the workspace', { agentsDir: 'workspace/agents' }, 'the agents of BATON_AGENTS_DIR (~/workspace/agents)'],
  ['the workspace in the agents', { workspaceDir: 'agents/files' }, 'the agents of BATON_AGENTS_DIR (~/agents)'],
  ['one folder for both', { workspaceDir: 'agents' }, 'the agents of BATON_AGENTS_DIR (~/agents)'],
  ['data in the workspace', { dataDir: 'workspace/.baton' }, 'the data of BATON_DATA_DIR (~/workspace/.baton)'],
  ['the workspace in the data', { workspaceDir: 'data/files' }, 'the data of BATON_DATA_DIR (~/data)'],
  ['all in one folder', { workspaceDir: '.' }, '(~/agents), the data of BATON_DATA_DIR (~/data)'],
  ['the root of the file system', { workspaceDir: '/' }, '(~/agents), the data of BATON_DATA_DIR (~/data)'],
  ['providers', { providersFile: 'workspace/p.yaml' }, 'the file of BATON_PROVIDERS_FILE (~/workspace/p.yaml)'],
  ['models', { modelsFile: 'workspace/m.yaml' }, 'the file of BATON_MODELS_FILE (~/workspace/m.yaml)'],
  ['MCP servers', { mcpFile: 'workspace/mcp.yaml' }, 'the file of BATON_MCP_FILE (~/workspace/mcp.yaml)'],
  ['settings', { configFile: 'workspace/c.yaml' }, 'the file of BATON_CONFIG (~/workspace/c.yaml)'],
  ['a link to the agents', { workspaceDir: 'link-to-agents' }, 'the agents of BATON_AGENTS_DIR (~/agents)'],
  ['a way through a link', { workspaceDir: 'link-to-here/data' }, 'the data of BATON_DATA_DIR (~/data)'],
  ['a link to nowhere yet', { dataDir: 'link-to-nothing' }, 'the data of BATON_DATA_DIR (~/workspace/later)'],
  ['an agent that is a link', { agentsDir: 'linked-agents' }, 'the agent (~/workspace/evil.yaml)'],
  ['the package', { workspaceDir: ROOT }, `a part of Baton's package (${path.join(ROOT, 'package.json')})`],
  ['a part of it', { workspaceDir: path.join(ROOT, 'src') }, `a part of Baton's package (${path.join(ROOT, 'src')})`],
  [
    'what it is installed with',
    { workspaceDir: path.join(ROOT, 'node_modules/any/folder') },
    `a part of Baton's package (${path.join(ROOT, 'node_modules')})`,
  ],
];

it.each(REFUSED)('refuses a workspace that shares files with Baton: %s', async (_what, given, named) => {
  await using place = await scratchDir();
  for (const folder of ['agents', 'linked-agents', 'workspace']) await mkdir(path.join(place.path, folder));
  await writeFile(path.join(place.path, 'workspace/evil.yaml'), 'name: evil\n');
  await symlink('../workspace/evil.yaml', path.join(place.path, 'linked-agents/evil.yaml'));
  await symlink('agents', path.join(place.path, 'link-to-agents'));
  await symlink('.', path.join(place.path, 'link-to-here'));
  await symlink('workspace/later', path.join(place.path, 'link-to-nothing'));
  const refusal = await refusalIn(place.path, given);
  expect(refusal).toMatch(/^BatonError: BATON_WORKSPACE_DIR is .*, where the tools of agents could reach /);
  expect(refusal).toContain(named);
  expect(refusal).toContain('give the workspace a folder of its own');
});

it.each([
  ['where nothing exists yet', {}],
  ['beside the agents', { workspaceDir: 'agents-files' }],
  ['in the folder of the package', { workspaceDir: path.join(ROOT, 'workspace') }],
  ['around an old data folder that is not used', { databaseUrl: 'postgres://x', dataDir: 'workspace/.baton' }],
])('takes a workspace %s', async (_where, given: Given) => {
  await using place = await scratchDir();
  expect(await refusalIn(place.path, given)).toBe('');
});

it('names what cannot be looked up', async () => {
  await using place = await scratchDir();
  await writeFile(path.join(place.path, 'file'), '');
  expect(await refusalIn(place.path, { workspaceDir: 'file/folder' })).toMatch(
    /^BatonError: BATON_WORKSPACE_DIR: ~\/file\/folder cannot be looked up: ENOTDIR/,
  );
});

it('no process starts on a workspace with the variables of Compose or of Node in it', async () => {
  await using place = await scratchDir();
  await mkdir(path.join(place.path, 'agents'));
  await writeFile(path.join(place.path, '.env'), '');
  await writeFile(path.join(place.path, 'more.env'), '');
  const environment = { BATON_WORKSPACE_DIR: '.', BATON_AGENTS_DIR: ROOT, DATABASE_URL: 'postgres://127.0.0.1:1/none' };
  const args = ['--env-file=more.env', path.join(ROOT, 'workers/steps.ts')];
  await using steps = runNode(args, { cwd: place.path, environment });
  const { code, output } = await steps.ended;
  expect(code).toBe(1);
  expect(output).toContain(
    `where the tools of agents could reach a file of variables (${place.path}/.env), a file of variables (${place.path}/more.env): give`,
  );
});
