import { copyFile, mkdir, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, it } from 'vitest';
import { COMPILER, packForConsumer, ROOT, run } from '../package/consumer.ts';
import { blocksOf, readPage } from '../support/pasted.ts';
import { HOMES } from './snippet-homes.ts';

const LANGUAGES = ['ts', 'tsx', 'js', 'sh', 'bash', 'yaml', 'json', ''];

it('every block of README, library page and guides has a place where it is typed or run, or a reason', async () => {
  const guides = (await readdir(path.join(ROOT, 'docs/guides'))).map((name) => `docs/guides/${name}`);
  expect(Object.keys(HOMES).toSorted()).toEqual(['README.md', 'docs/library.md', ...guides].toSorted());
  for (const [page, homes] of Object.entries(HOMES)) {
    const blocks = await blocksOf(page);
    const begins = blocks.map(({ text }, index) => text.slice(0, homes[index]?.begins.length ?? 40));
    expect(begins, `the blocks of ${page}: test/docs/snippet-homes.ts needs a row for each`).toEqual(
      homes.map((home) => home.begins),
    );
    for (const [index, { begins: block, typed, run: test, left }] of homes.entries()) {
      expect(LANGUAGES, `${page}: ${block}`).toContain(blocks[index]?.language);
      expect(typed !== undefined || test !== undefined || (left ?? '').length > 0, `${page}: ${block}`).toBe(true);
      if (test !== undefined) expect((await readPage(test)).length, test).toBeGreaterThan(0);
    }
  }
});

it('the blocks of TypeScript are typed by the packed packages, as strictly as a new project is', async () => {
  await using consumer = await packForConsumer([
    ...['fastify', 'express', 'react', 'react-dom', '@ai-sdk/react'],
    ...['@types/pg', '@types/react', '@types/react-dom', 'csstype'],
  ]);
  const folder = path.join(consumer.folder, 'blocks');
  await mkdir(folder);
  await copyFile(path.join(ROOT, 'test/support/express.d.ts'), path.join(folder, 'express.d.ts'));
  for (const [page, homes] of Object.entries(HOMES)) {
    const blocks = await blocksOf(page);
    for (const [index, { typed }] of homes.entries()) {
      const { language, text } = blocks[index] ?? { language: '', text: '' };
      if (typed === undefined) continue;
      const name = `${path.basename(page, '.md')}-${index + 1}.${language === 'tsx' ? 'tsx' : 'ts'}`;
      await writeFile(path.join(folder, name), `${typed}${text}\nexport {};\n`);
    }
  }
  const compilerOptions = {
    ...{ strict: true, noEmit: true, skipLibCheck: true, erasableSyntaxOnly: true, jsx: 'react-jsx' },
    ...{ module: 'nodenext', moduleResolution: 'nodenext', target: 'es2024', types: ['node'] },
    lib: ['es2024', 'dom', 'dom.iterable', 'esnext.disposable'],
  };
  await writeFile(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*'] }));
  const said = await run(process.execPath, [COMPILER, '--project', folder], { cwd: folder }).then(
    ({ stdout }) => stdout,
    (error: { stdout: string }) => error.stdout,
  );
  expect(said).toBe('');
}, 400_000);
