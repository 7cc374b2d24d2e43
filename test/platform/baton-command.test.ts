import { expect, test } from 'vitest';
import { asCalled, batonCommand } from '../../src/platform/baton-command.ts';

const CLONE = '/home/a/baton/src/platform';
const PROJECT = '/home/a/app/node_modules/@baton-run/server/dist/src/platform';
const GLOBAL = '/usr/local/lib/node_modules/@baton-run/server/dist/src/platform';
const npm = { npm_execpath: '/usr/lib/npm-cli.js' };

test.each([
  ['a clone by npm', CLONE, '/home/a/baton/src/cli/baton.ts', npm, 'npm run -s baton --'],
  ['a clone by node', CLONE, '/home/a/baton/workers/all.ts', {}, 'npm run -s baton --'],
  ['a clone that is linked', CLONE, '/usr/local/bin/baton', {}, 'baton'],
  ['a program that has the package', PROJECT, '/home/a/app/main.ts', {}, 'npx baton'],
  ['npx', PROJECT, '/home/a/app/node_modules/.bin/baton', npm, 'npx baton'],
  ['the file that npx would call', PROJECT, '/home/a/app/node_modules/.bin/baton', {}, 'npx baton'],
  ['npx with a package of its own', GLOBAL, '/home/a/.npm/_npx/1/node_modules/.bin/baton', npm, 'npx baton'],
  ['the path', GLOBAL, '/usr/local/bin/baton', {}, 'baton'],
])('%s is called in the same way again', (_name, folder, script, environment, command) => {
  expect(batonCommand({ environment, script, folder })).toBe(command);
});

test('a help names commands as they are called, and the product as it is', () => {
  const help = 'baton keys create --name NAME\n\nBaton prints it once; see "baton keys list".';
  expect(asCalled(help, 'npx baton')).toBe(
    'npx baton keys create --name NAME\n\nBaton prints it once; see "npx baton keys list".',
  );
});
