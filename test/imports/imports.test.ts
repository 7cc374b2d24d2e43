import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkImports } from './check-imports.ts';
import { FLOORS, READERS } from './floors.ts';

const ROOT = path.join(import.meta.dirname, '../..');

let copy: string;
beforeAll(async () => {
  copy = await mkdtemp(path.join(tmpdir(), 'imports-test-'));
  for (const folder of ['src/domain', 'src/platform', 'src/client']) {
    await cp(path.join(ROOT, folder), path.join(copy, folder), { recursive: true });
  }
});
afterAll(() => rm(copy, { recursive: true }));

/** The violations of the copy while one of its files begins with other code. */
async function withCode(file: string, code: string): Promise<readonly string[]> {
  const before = await readFile(path.join(copy, file), 'utf8');
  await writeFile(path.join(copy, file), `${code}\n${before}`);
  const violations = checkImports(copy);
  await writeFile(path.join(copy, file), before);
  return violations;
}

describe('imports between folders', () => {
  it('keep to their floors', () => {
    expect(checkImports(copy)).toEqual([]);
  });

  it.each([
    ['src/platform/within.ts', `import '../store/database.ts';`, /^src\/platform\/within\.ts imports src\/store\//],
    ['src/platform/within.ts', `import type { A } from '../app/dependencies.ts';`, /imports src\/app\//],
    ['src/platform/within.ts', `export * from '../http/server.ts';`, /imports src\/http\//],
    ['src/platform/within.ts', `await import('../http/server.ts');`, /imports src\/http\//],
    ['src/domain/ids.ts', `import './run/run.ts';`, /^src\/domain\/ids\.ts imports src\/domain\/run\//],
    ['src/domain/ids.ts', `import 'node:fs';`, /imports node:fs: of libraries it may import zod/],
    ['src/client/retry.ts', `import 'zod';`, /imports zod: of libraries it may import none/],
  ])('are refused where they climb: %s with %s', async (file, code, sentence) => {
    expect(await withCode(file, code)).toEqual([expect.stringMatching(sentence)]);
  });

  it('are refused where files import each other', async () => {
    await writeFile(path.join(copy, 'src/domain/truncate-again.ts'), `import './truncate.ts';`);
    expect(await withCode('src/domain/truncate.ts', `import './truncate-again.ts';`)).toEqual([
      'these files import each other: src/domain/truncate-again.ts, src/domain/truncate.ts',
    ]);
  });

  it('name no folder above their own row', () => {
    const order = Object.keys(FLOORS);
    for (const [index, row] of Object.values(FLOORS).entries()) {
      for (const folder of row) expect(order.indexOf(folder.replace('/*', ''))).toBeLessThan(index);
    }
  });
});

const DOORS = ['src/delegation', 'src/schedules', 'src/http', 'src/facades', 'src/library', 'src/cases', 'src/cli'];

/** The folders that change sessions, too, and tell of it by the commands' after-commit. */
const WORKERS = ['src/claims', 'src/recovery', 'src/step', 'src/compaction', 'src/webhooks', 'src/app', 'src/commands'];

/** Puts each code into a file of the folder. @returns the codes that are no violation, and all violations */
async function plant(
  folder: string,
  codes: readonly string[],
): Promise<Readonly<{ missed: readonly string[]; violations: readonly string[] }>> {
  const root = await mkdtemp(path.join(tmpdir(), 'short-cuts-'));
  await mkdir(path.join(root, folder), { recursive: true });
  for (const [index, code] of codes.entries()) await writeFile(path.join(root, folder, `${index}.ts`), code);
  const violations = checkImports(root);
  await rm(root, { recursive: true });
  const isMissed = (index: number) => !violations.some((text) => text.startsWith(`${folder}/${index}.ts `));
  return { missed: codes.filter((_, index) => isMissed(index)), violations };
}

describe('a worker that tells of a commit by hand', () => {
  const SHORT_CUTS = [
    `export const tell = ({ bus }) => bus.announce('s', 1);`,
    `export const tell = (deps, scope) => deps.bus.announce(scope.sessionId, 1);`,
    `export const stop = (deps) => deps.bus.requestCancel('r');`,
    `export const goOn = async (deps, job) => await deps.jobs.add([job], { isFirst: true });`,
  ];

  it.each(WORKERS)('is found in %s', async (folder) => {
    const { missed, violations } = await plant(folder, SHORT_CUTS);
    expect(missed).toEqual([]);
    expect(violations).toContainEqual(expect.stringMatching(/0\.ts calls bus\.announce: .*after-commit\.ts/));
  });

  it('is told from one that calls after-commit, sends previews, or hears of cancels', async () => {
    const codes = [
      `import { afterEvent } from '../commands/after-commit.ts';\nexport const tell = (deps) => afterEvent(deps, 's', { eventSeq: 1 });`,
      `export const show = (deps, event) => deps.bus.preview('s', event);`,
      `export const hear = (deps) => deps.bus.onCancel(() => undefined);`,
    ];
    expect((await plant('src/step', codes)).violations).toEqual([]);
  });
});

describe('a door that changes a session past the commands', () => {
  const SHORT_CUTS = [
    [`import { acceptMessage } from '../store/changes/inbox.ts';`, /imports src\/store\/changes\//],
    [`import type { CancelOutcome } from '../store/changes/cancels.ts';`, /imports src\/store\/changes\//],
    [`import { replacePinnedTools } from '../store/work/pinned-tools.ts';`, /imports src\/store\/work\//],
    [`import type { LiveBus } from '../events/live-bus.ts';`, /imports src\/events\/live-bus\.ts/],
    [
      `export const tell = ({ bus }) => bus.announce('s', 1);`,
      /calls bus\.announce: only src\/commands\/after-commit\.ts/,
    ],
    [
      `export const tell = (deps) => deps.bus.announce('s', 1);`,
      /calls deps\.bus\.announce: only src\/commands\/after-commit\.ts/,
    ],
    [
      `export const stop = (deps) => deps.bus.requestCancel('r');`,
      /calls deps\.bus\.requestCancel: only src\/commands\//,
    ],
    [`export const start = ({ jobs }, job) => void jobs.add([job]);`, /calls jobs\.add: only src\/commands\//],
    [
      `export const begin = (tx, session) => insertSession(tx, session);`,
      /calls insertSession: only src\/commands and/,
    ],
    [`export const route = createRoute({ method: 'get', path: '/v1/more' });`, /calls createRoute: only src\/api may/],
  ] as const;

  it.each(DOORS)('is found in %s', async (folder) => {
    const { missed, violations } = await plant(
      folder,
      SHORT_CUTS.map(([code]) => code),
    );
    expect(missed).toEqual([]);
    for (const [, sentence] of SHORT_CUTS) expect(violations).toContainEqual(expect.stringMatching(sentence));
  });

  const WRITES = [
    `import { createWebhook } from '../store/around/webhooks.ts';`,
    `import { type ScheduleRow, changeSchedule } from '../store/around/schedules.ts';`,
    `import { appendAudit } from '../store/around/audit.ts';`,
    `import { createApiKey } from '../store/around/api-keys.ts';`,
    `import { updateSession } from '../store/session/sessions.ts';`,
    `import { putBlob } from '../store/transcript/blobs.ts';`,
    `import * as webhooks from '../store/around/webhooks.ts';`,
  ];

  it.each(READERS)('is found in %s where it takes what writes from the store', async (folder) => {
    const root = await mkdtemp(path.join(tmpdir(), 'writes-'));
    await mkdir(path.join(root, folder), { recursive: true });
    for (const [index, code] of WRITES.entries()) await writeFile(path.join(root, folder, `${index}.ts`), code);
    const violations = checkImports(root).filter((text) => text.includes('of the store: a command'));
    await rm(root, { recursive: true });
    expect(violations.map((text) => text.slice(folder.length + 1, folder.length + 2))).toEqual(
      [...WRITES.keys()].map(String),
    );
  });

  it('is told from one that only reads and calls commands', async () => {
    const code = `import { findRun } from '../store/session/runs.ts';
      import { findWebhook, type NewWebhook } from '../store/around/webhooks.ts';
      import type { createWebhook } from '../store/around/webhooks.ts';
      import { inTransaction } from '../store/db/database.ts';
      import { cancelRun } from '../commands/cancel.ts';
      export const list = (names) => names.add('a');`;
    expect((await plant('src/http', [code])).violations).toEqual([]);
  });
});
