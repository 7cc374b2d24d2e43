import { expect, test } from 'vitest';
import { chooseServices, dockerSockets, serviceMode, whyNotUsable } from './choose-services.ts';

const nothing = { postgres: null, redis: null } as const;
const local = { postgres: 'local', redis: 'local' } as const;
const given = { postgres: 'given', redis: 'given' } as const;

test.each([
  ['auto', given, true, 'given', 'given'],
  ['auto', local, true, 'local', 'local'],
  ['auto', nothing, true, 'container', 'container'],
  ['auto', { postgres: 'local', redis: null }, true, 'local', 'container'],
  ['auto', nothing, false, 'embedded', 'none'],
  ['containers', local, true, 'container', 'container'],
  ['containers', { postgres: 'given', redis: 'local' }, true, 'given', 'container'],
  ['containers', given, false, 'given', 'given'],
  ['embedded', given, true, 'embedded', 'none'],
] as const)('%s with %j, and Docker %s: Postgres %s, Redis %s', (mode, answering, hasDocker, postgres, redis) => {
  expect(chooseServices(mode, answering, hasDocker)).toEqual({ postgres, redis });
});

test('containers without Docker are refused, not replaced', () => {
  expect(() => chooseServices('containers', local, false)).toThrow('BATON_TEST_SERVICES=containers needs Docker');
  expect(() => serviceMode({ BATON_TEST_SERVICES: 'docker' })).toThrow('expected auto, containers or embedded');
  expect(serviceMode({})).toBe('auto');
});

test('a superuser needs no right to create databases, and of another role is said what it lacks', () => {
  const role = { name: 'tester', createsDatabases: false, isSuperuser: false };
  expect(whyNotUsable({ ...role, createsDatabases: true })).toBeNull();
  expect(whyNotUsable({ ...role, isSuperuser: true })).toBeNull();
  expect(whyNotUsable(role)).toContain('"alter role tester createdb"');
});

test('Docker is looked for where Testcontainers does, with and without root', () => {
  expect(dockerSockets({ HOME: '/home/a', XDG_RUNTIME_DIR: '/run/user/1' })).toEqual([
    '/var/run/docker.sock',
    '/home/a/.docker/run/docker.sock',
    '/home/a/.docker/desktop/docker.sock',
    '/run/user/1/docker.sock',
  ]);
});
