import { execFile } from 'node:child_process';
import { mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { createModuleLoader } from '../../src/tools/load-module.ts';

const run = promisify(execFile);

/** A module with this content in a folder of its own, because Node loads the same file only once. */
function moduleOf(content: string) {
  const folder = mkdtempSync(path.join(tmpdir(), 'baton-modules-'));
  writeFileSync(path.join(folder, 'tool.ts'), content);
  const load = createModuleLoader(folder, '/srv/files');
  return {
    folder,
    load: () => load('./tool.ts', 'clerk', 'tools.0.module'),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true }),
  };
}

const TOOL = (name: string, more = '') =>
  `{ name: '${name}', description: 'x', inputSchema: { type: 'object' }, execute: async (): Promise<string> => 'ok', ${more} }`;

/**
 * The name and the required inputs of a module's tool, or the refusal. Node alone loads it, without the test runner.
 */
async function loadedByNode(folder: string, module: string): Promise<unknown> {
  const loader = new URL('../../src/tools/load-module.ts', import.meta.url).href;
  const program = `
    import { createModuleLoader } from ${JSON.stringify(loader)};
    const load = createModuleLoader(${JSON.stringify(folder)}, '/srv/files');
    const loaded = load(${JSON.stringify(module)}, 'clerk', 'tools.0.module');
    const said = await loaded.then(([tool]) => [tool.name, tool.inputSchema.required ?? null], (error) => error.message);
    console.log(JSON.stringify(said));`;
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', program]);
  return JSON.parse(stdout);
}

describe('a module', () => {
  it.each([
    ['one tool', `export default ${TOOL('a')};`, ['a']],
    ['several', `export default [${TOOL('a')}, ${TOOL('b')}];`, ['a', 'b']],
    ['tools under names', `export const a = ${TOOL('a')};\nexport const b = [${TOOL('b')}];`, ['a', 'b']],
    [
      'a function of its context',
      `type Context = { agent: string; workspaceDir: string };
       export default async ({ agent, workspaceDir }: Context) => [${TOOL('a', 'agent, workspaceDir')}];`,
      ['a'],
    ],
  ])('exports %s', async (_what, content, names) => {
    using module = moduleOf(content);
    expect((await module.load()).map(({ name }) => name)).toEqual(names);
  });

  it.each(['tool.ts', 'linked.ts'])('in the workspace is refused by name, also by a link to it: %s', async (name) => {
    using module = moduleOf(`throw new Error('its code runs');`);
    symlinkSync('.', path.join(module.folder, 'workspace'));
    symlinkSync('tool.ts', path.join(module.folder, 'linked.ts'));
    const load = createModuleLoader(module.folder, path.join(module.folder, 'workspace'));
    const file = path.join(module.folder, name);
    await expect(load(name, 'clerk', 'tools.0.module')).rejects.toMatchObject({
      code: 'config_invalid',
      message: `tools.0.module: ${file} lies in the workspace, where tools could change its code`,
    });
  });

  it('is told the agent and the workspace', async () => {
    using module = moduleOf(`export default (context: object) => (${TOOL('a', '...context')});`);
    expect(await module.load()).toMatchObject([{ agent: 'clerk', workspaceDir: '/srv/files' }]);
  });

  it.each([
    ['exports nothing', 'export {};', 'exports no tool'],
    ['exports something else', 'export default 3;', 'not a tool: '],
    ['has a name that no provider takes', `export default ${TOOL('a b')};`, 'name: letters, digits'],
    ['has no schema', `export default { ...${TOOL('a')}, inputSchema: undefined };`, 'inputSchema: a zod schema'],
    ['has an array’s schema', `export default ${TOOL('a', "inputSchema: { type: 'array' }")};`, 'inputSchema: a zod'],
    ['cannot be run', `export default ${TOOL('a', "execute: 'x'")};`, 'execute: a function'],
    ['has a time that is none', `export default ${TOOL('a', 'timeoutMs: -1')};`, 'timeoutMs: '],
    [
      'has schemas by name',
      `import { z } from 'zod';\nexport default ${TOOL('a', 'inputSchema: { id: z.string() }')};`,
      'inputSchema: a zod',
    ],
    [
      'has the schema of another library',
      `export default ${TOOL('a', "inputSchema: { type: 'object', '~standard': {} }")};`,
      'inputSchema: a zod',
    ],
    [
      'has a schema of zod 3',
      `import { z } from 'zod/v3';\nexport default { ...${TOOL('a')}, inputSchema: z.object({}) };`,
      'tool "a": inputSchema: is a schema of zod 3: take zod 4',
    ],
    ['throws', `throw new Error('no such driver');`, 'cannot be loaded: no such driver'],
    [
      'has a function that throws',
      `export default () => { throw new Error('no key'); };`,
      'its function failed: no key',
    ],
  ])('that %s is refused with the key and the file', async (_what, content, problem) => {
    using module = moduleOf(content);
    await expect(module.load()).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringMatching(
        new RegExp(`^tools\\.0\\.module: .*tool\\.ts.*${problem.replaceAll(/[().]/g, '.')}`),
      ),
    });
  });

  it('has the zod of Baton where its folder is no package, as in the documentation', async () => {
    const text = await readFile(path.join(import.meta.dirname, '../../docs/tools.md'), 'utf8');
    const example = /^import \{ defineTool \}[\s\S]+?^\}\);$/m.exec(text)?.[0] ?? '';
    using module = moduleOf(example);
    expect(await loadedByNode(module.folder, './tool.ts')).toEqual(['get_weather', ['city']]);
    writeFileSync(path.join(module.folder, 'old.ts'), example.replace("'zod'", "'zod/v3'"));
    expect(await loadedByNode(module.folder, './old.ts')).toMatch(
      /old\.ts: tool "get_weather": inputSchema: is a schema of zod 3: take zod 4/,
    );
  });

  it('that a package.json makes CommonJS is refused with what to do, and runs as .mts', async () => {
    using module = moduleOf(`import path from 'node:path';\nexport default ${TOOL('a', 'path')};`);
    writeFileSync(path.join(module.folder, 'package.json'), '{ "type": "commonjs" }');
    expect(await loadedByNode(module.folder, './tool.ts')).toMatch(
      /tool\.ts cannot be loaded: Cannot use import statement outside a module; give the file the ending \.mts/,
    );
    renameSync(path.join(module.folder, 'tool.ts'), path.join(module.folder, 'tool.mts'));
    expect(await loadedByNode(module.folder, './tool.mts')).toEqual(['a', null]);
  });

  it('that is not there is refused as well', async () => {
    const load = createModuleLoader('/nowhere', 'workspace');
    await expect(load('./a.ts', 'clerk', 'tools.3.module')).rejects.toThrow(
      'tools.3.module: /nowhere/a.ts cannot be loaded',
    );
  });
});
