import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { CASES } from '../../bench/cases.ts';
import { agentFileSchema } from '../../src/agents/agent.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { VARIABLES } from '../../src/platform/settings.ts';
import { ROWS } from '../abuse/catalogue.ts';
import { BREAKAGES } from '../faults/breakages.ts';
import { FAULTS, GROUPS } from '../faults/catalogue.ts';
import { FLOORS } from '../imports/floors.ts';
import { blocksOf, folderInside, ROOT, readPage } from '../support/pasted.ts';
import { clientProgram } from './client-program.ts';
import { pageNames } from './page-names.ts';

/** Pages about the code. */
const ON_CODE = ['ARCHITECTURE.md', 'AGENTS.md', 'CONTRIBUTING.md', 'docs/internals.md', 'docs/terms.md'];

/** Every page, by its path. */
const pages = new Map<string, string>();

beforeAll(async () => {
  for (const page of await pageNames()) pages.set(page, await readPage(page));
});

/** All matches of the pattern, with their pages. */
function* found(pattern: RegExp): Generator<Readonly<{ page: string; groups: readonly string[] }>> {
  for (const [page, text] of pages) {
    for (const match of text.matchAll(pattern)) yield { page, groups: match.slice(1).map((group) => group ?? '') };
  }
}

/** The anchor that GitHub makes from a heading. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');

const anchorsIn = (page: string): string[] =>
  [...(pages.get(page) ?? '').matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => anchorOf(heading));

describe('the pages', () => {
  it('link to files and headings that there are', () => {
    const links = [...found(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)/g)];
    expect(links.length).toBeGreaterThan(20);
    for (const { page, groups } of links) {
      const [file = '', anchor = ''] = groups;
      const target = file === '' ? page : path.join(path.dirname(page), file);
      expect(existsSync(path.join(ROOT, target)), `${page}: ${target}`).toBe(true);
      if (anchor !== '') expect(anchorsIn(target), `${page}: ${target}#${anchor}`).toContain(anchor);
    }
  });

  it('name scripts, files, cases and faults that there are', async () => {
    const { scripts } = JSON.parse(await readPage('package.json')) as { scripts: Record<string, string> };
    for (const { page, groups } of found(/npm run (?:-s )?([\w:]+)/g)) {
      expect(Object.keys(scripts), page).toContain(groups[0]);
    }
    for (const { page, groups } of found(
      /`((?:src|test|workers|migrations|examples|bin|bench|console|simulator|eval|packages|docs)\/[\w./-]+)`/g,
    )) {
      expect(existsSync(path.join(ROOT, groups[0] ?? '')), `${page}: ${groups[0]}`).toBe(true);
    }
    const faults = [...FAULTS.map(({ name }) => name), ...GROUPS.keys()];
    for (const { page, groups } of found(/npm run faults --.*?--only ([\w,-]+)/g)) {
      expect(faults, page).toEqual(expect.arrayContaining((groups[0] ?? '').split(',')));
    }
    for (const { page, groups } of found(/npm run faults -- --broken ([\w-]+)/g)) {
      expect(
        BREAKAGES.map(({ name }) => name),
        page,
      ).toContain(groups[0]);
    }
    const rows = ROWS.map(({ name }) => name);
    for (const { page, groups } of found(/npm run abuse --.*?--only ([\w,-]+)/g)) {
      expect(rows, page).toEqual(expect.arrayContaining((groups[0] ?? '').split(',')));
    }
    const security = pages.get('docs/security.md') ?? '';
    expect(rows.filter((row) => !security.includes(`\`${row}\``))).toEqual([]);
    for (const { page, groups } of found(/npm run bench -- --only ([\w-]+)/g)) {
      expect(Object.keys(CASES), page).toContain(groups[0]);
    }
  });

  it('name things in files that have them', async () => {
    const named = [...found(/`(\w+)` (?:in|of) `((?:src|test|console)\/[\w./-]+\.\w+)`/g)];
    expect(named.length).toBeGreaterThan(5);
    for (const { page, groups } of named) {
      const [name = '', file = ''] = groups;
      expect(await readPage(file), `${page}: ${name} in ${file}`).toMatch(new RegExp(`\\b${name}\\b`));
    }
  });

  it('name functions of the database that there are', () => {
    // Elsewhere such a name is a metric.
    for (const { page, groups } of found(/`(baton_[a-z_]+)`/g)) {
      const file = path.join(ROOT, 'src/store/sql', `${groups[0]}.sql`);
      if (ON_CODE.includes(page)) expect(existsSync(file), `${page}: ${groups[0]}`).toBe(true);
    }
  });

  it('name columns of tables that there are', async () => {
    const tables = [...(await readPage('migrations/schema.sql')).matchAll(/^create table (\w+) \(([\s\S]*?)^\);/gm)];
    const textOf = new Map(tables.map(([, table = '', columns = '']) => [table, columns]));
    const named = [...found(/`([a-z_]+)\.([a-z_]+)`/g)].filter(
      ({ page, groups: [table = ''] }) => ON_CODE.includes(page) && textOf.has(table),
    );
    expect(named.length).toBeGreaterThan(20);
    for (const { page, groups } of named) {
      const [table = '', column = ''] = groups;
      expect(textOf.get(table), `${page}: ${table}.${column}`).toMatch(new RegExp(`^ +${column} `, 'm'));
    }
  });

  it('name settings that there are, with the defaults that they have', () => {
    const known = [...Object.values(VARIABLES), 'BATON_CONFIG', 'BATON_URL', 'BATON_API_KEY', 'BATON_WEBHOOK_SECRET'];
    for (const { page, groups } of found(/\b(BATON_[A-Z_]*[A-Z])\b/g)) {
      // These are settings of the tests.
      if (!/^BATON_(?:TEST|FUZZ)_/.test(groups[0] ?? '')) expect(known, page).toContain(groups[0]);
    }
    const config = loadConfig({});
    const defaults = Object.entries(VARIABLES).map(([key, variable]) => [variable, config[key as keyof typeof config]]);
    const defaultOf = new Map(defaults.map(([variable, value]) => [String(variable), value]));
    const told = [...found(/`(BATON_\w+)` \((\d+)( s)?[),]/g)].map(
      ({ page, groups: [variable = '', number, unit] }) => ({
        what: `${page}: ${variable}`,
        variable,
        value: Number(number) * (unit === ' s' ? 1_000 : 1),
      }),
    );
    expect(told.length).toBeGreaterThan(2);
    for (const { what, variable, value } of told) expect(defaultOf.get(variable), `${what} ${variable}`).toBe(value);
  });

  it('list the folders of src from the ground to the roof', async () => {
    const listed = [...(await readPage('ARCHITECTURE.md')).matchAll(/^ {2}(src\/\w+)\/ /gm)].map(
      ([, folder]) => folder,
    );
    // Rooms of a folder stand in its line.
    const topOf = (folder: string): string => folder.split('/').slice(0, 2).join('/');
    const floors = Object.entries(FLOORS).filter(([folder]) => folder.startsWith('src/'));
    expect(listed.toSorted()).toEqual([...new Set(floors.map(([folder]) => topOf(folder)))].toSorted());
    for (const [folder, imports] of floors) {
      const [top, ...below] = [folder, ...imports].map(topOf).filter((each) => listed.includes(each));
      for (const each of below) {
        expect(listed.indexOf(each), `${folder} imports ${each}`).toBeLessThanOrEqual(listed.indexOf(top));
      }
    }
  });

  it('show agents that are accepted', () => {
    const agents = [...found(/```yaml\n(name: [\s\S]*?)```/g)];
    expect(agents.length).toBeGreaterThanOrEqual(3);
    for (const { page, groups } of agents) {
      expect(agentFileSchema.safeParse(parse(groups[0] ?? '')), page).toMatchObject({ success: true });
    }
    for (const { page, groups } of found(/```yaml\n(context:[\s\S]*?)```/g)) {
      const agent = { name: 'any', model: 'openai/gpt-5.4', ...parse(groups[0] ?? '') };
      expect(agentFileSchema.safeParse(agent), page).toMatchObject({ success: true });
    }
  });

  it('show programs that the compiler accepts', async () => {
    await using folder = await folderInside();
    const library = path.join(folder.path, 'library');
    await mkdir(library);
    await writeFile(path.join(folder.path, 'tsconfig.json'), JSON.stringify(PROGRAM_SETTINGS));
    await writeFile(path.join(library, 'tsconfig.json'), JSON.stringify(LIBRARY_SETTINGS));
    const programs: Record<string, string> = { 'take-picture.ts': TAKE_PICTURE };
    for (const page of pages.keys()) Object.assign(programs, await programsOf(page));
    expect(Object.keys(programs).length).toBeGreaterThanOrEqual(7);
    for (const [name, text] of Object.entries(programs)) await writeFile(path.join(folder.path, name), text);
    const tsc = path.join(ROOT, 'node_modules/.bin/tsc');
    const compile = async (project: string): Promise<string> => {
      const { stdout } = await promisify(execFile)(tsc, ['--noEmit', '-p', project]).catch(
        (error: { stdout: string }) => error,
      );
      return stdout;
    };
    expect(await Promise.all([compile(folder.path), compile(library)])).toEqual(['', '']);
  });
});

/** The programs of a page by the names of their files. Those in library/ import the service, which is not for browsers. */
async function programsOf(page: string): Promise<Record<string, string>> {
  const all = await blocksOf(page);
  const textsOf = (kind: string): string[] => all.filter(({ language }) => language === kind).map(({ text }) => text);
  const blocks = textsOf('ts');
  if (page === 'docs/client.md') {
    const [create = '', result = '', follow = '', refused = ''] = blocks;
    return { 'client.ts': clientProgram(create, follow, refused + result, "const sessionId = '';", '') };
  }
  // The later blocks go on where the first ends.
  if (page === 'docs/library.md') return { 'library/program.ts': blocks.join('\n') };
  const name = path.basename(page, '.md');
  const programs = blocks.map((text, index) => {
    const folder = text.includes("from '@baton-run/server';") ? 'library/' : '';
    return [`${folder}${name}-${index}.ts`, `${text}\nexport {};\n`];
  });
  return Object.fromEntries([...programs, ...textsOf('tsx').map((text) => [`${name}.tsx`, text])]);
}

const TAKE_PICTURE = 'export declare function takePicture(url: string): Promise<Uint8Array>;\n';

/** Compiler settings for programs in a folder inside this package. */
const PROGRAM_SETTINGS = {
  extends: '../../tsconfig.json',
  compilerOptions: {
    jsx: 'react-jsx',
    paths: { '@baton-run/client': ['../../src/client/client.ts'] },
    lib: ['es2024', 'esnext.disposable', 'dom', 'dom.iterable'],
    noUnusedLocals: false,
    noPropertyAccessFromIndexSignature: false,
  },
  include: ['*.ts', '*.tsx'],
  exclude: [],
};

const LIBRARY_SETTINGS = {
  extends: '../../../tsconfig.json',
  compilerOptions: { noUnusedLocals: false, noPropertyAccessFromIndexSignature: false },
  include: ['*.ts'],
  exclude: [],
};
