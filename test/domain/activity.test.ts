import { expect, test } from 'vitest';
import { type ActivityView, changesBetween } from '../../src/domain/activity.ts';

type Sessions = Readonly<Record<string, string>>;

/** Sessions by id, each with a signature; its run is named after the session. */
const view = (active: Sessions, newest: Sessions = {}, hasMore = false): ActivityView => {
  const toMap = (sessions: Sessions, isActive: boolean) =>
    new Map(
      Object.entries(sessions).map(([id, signature]) => [id, { signature, runId: isActive ? `run of ${id}` : null }]),
    );
  return { active: toMap(active, true), newest: toMap(newest, false), hasMore };
};
const changed = (...sessionIds: string[]) => ({
  kind: 'changed',
  sessionIds,
  runIds: sessionIds.map((id) => `run of ${id}`),
});

test('nothing has changed', () => {
  expect(changesBetween(view({ a: '1' }, { b: '1' }), view({ a: '1' }, { b: '1' }))).toBeNull();
});

test('a session at work has gone on, begun or ended', () => {
  expect(changesBetween(view({ a: '1', b: '1' }), view({ a: '2', b: '1' }))).toEqual(changed('a'));
  expect(changesBetween(view({}), view({ a: '1' }))).toEqual(changed('a'));
  expect(changesBetween(view({ a: '1' }), view({}))).toEqual(changed('a'));
});

test('a session is new, or one of the newest has changed', () => {
  expect(changesBetween(view({}), view({}, { a: '1' }))).toEqual({ kind: 'changed', sessionIds: ['a'], runIds: [] });
  expect(changesBetween(view({}, { a: '1' }), view({}, { a: '2' }))).toMatchObject({ sessionIds: ['a'] });
});

test('a session that newer ones push out of the newest has not changed', () => {
  expect(changesBetween(view({}, { a: '1', b: '1' }), view({}, { b: '1' }))).toBeNull();
});

test('too many have changed to be named', () => {
  const many = Object.fromEntries(Array.from({ length: 201 }, (_, n) => [`s${n}`, '1']));
  expect(changesBetween(view({}), view(many))).toEqual({ kind: 'overflow' });
  expect(changesBetween(view({ a: '1' }), view({ a: '2' }, {}, true))).toEqual({ kind: 'overflow' });
  expect(changesBetween(view({ a: '1' }, {}, true), view({ a: '1' }, {}, true))).toBeNull();
});
