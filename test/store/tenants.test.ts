import { readdir } from 'node:fs/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BatonError } from '../../src/domain/errors.ts';
import { newId } from '../../src/platform/new-id.ts';
import type { Db } from '../../src/store/db/database.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { CLAIMED, type Draw, OF_OWN_SESSION, READS, WRITES } from './tenants/calls.ts';
import { EXEMPT } from './tenants/exempt.ts';
import { findTables, idsIn, mixedRows, readRows, textOf } from './tenants/rows.ts';
import { fillTenant, type Tenant } from './tenants/tenant.ts';

const CALLS = { ...READS, ...OF_OWN_SESSION, ...CLAIMED, ...WRITES };
const NAMES = Object.keys(CALLS);
/** Codes with which a call may be refused that names something of another tenant. */
const REFUSALS = ['not_found', 'conflict', 'invalid_request', 'session_busy', 'already_answered', 'fenced'];

/** Fills the database with the things of two new tenants. */
async function openTenants(db: Db): Promise<readonly [Tenant, Tenant]> {
  const count = (await db.selectFrom('sessions').select('tenant_id').distinct().execute()).length;
  const shared = Array.from({ length: 100 }, newId);
  return [
    await fillTenant(db, `a-${count}`, 'MARIGOLD', messageIds(shared)),
    await fillTenant(db, `b-${count}`, 'SNOWDROP', messageIds(shared)),
  ];
}

/** Two of three messages have the id of a message of the other tenant. */
function messageIds(shared: readonly string[]): () => string {
  let no = 0;
  return () => {
    no += 1;
    return (no % 3 === 0 ? undefined : shared[no]) ?? newId();
  };
}

type Pick = (upto: number) => number;

/** @param isForeign whether the next id is the other's */
function drawFrom(me: Tenant, other: Tenant, pick: Pick, isForeign: () => boolean): Draw {
  const one = <T>(choices: (tenant: Tenant) => readonly T[]): T => {
    const all = choices(isForeign() ? other : me);
    const chosen = all[pick(all.length)];
    if (chosen === undefined) throw new Error('the tenant has none of these');
    return chosen;
  };
  return {
    session: () => one(({ sessions }) => sessions),
    run: () => one(({ runs }) => runs),
    message: () => one(({ messages }) => messages),
    call: () => one(({ calls }) => calls),
    blob: () => one(({ blobs }) => blobs),
    schedule: () => one(({ schedules }) => schedules),
    webhook: () => one(({ webhooks }) => webhooks),
    delivery: () => one(({ deliveries }) => deliveries),
    claim: () => {
      const claim = me.claims[pick(me.claims.length)];
      if (claim === undefined) throw new Error('the tenant holds no claim');
      return claim;
    },
    number: pick,
  };
}

type Answer = Readonly<{ value: unknown; refused?: string; says: string }>;

async function ask(db: Db, name: string, me: Tenant, draw: Draw): Promise<Answer> {
  try {
    const value = await CALLS[name]?.(db, me, draw);
    return { value, says: textOf(value) };
  } catch (error) {
    // A SQL statement raises this error for a request that no worker makes.
    const raised = error instanceof Error && 'code' in error && error.code === 'P0001';
    const code = error instanceof BatonError ? error.code : 'raised';
    if (!raised && !(error instanceof BatonError && REFUSALS.includes(code))) throw new Error(name, { cause: error });
    return { value: null, refused: code, says: error.message };
  }
}

const isNothing = (value: unknown): boolean =>
  value === null ||
  value === false ||
  (Array.isArray(value) && value.length === 0) ||
  (value instanceof Map && value.size === 0) ||
  (typeof value === 'object' && 'kind' in value && value.kind === 'missing') ||
  (typeof value === 'object' && 'answers' in value && textOf(value.answers) === '0: refused');

describe('what the store does for a tenant', () => {
  it('is tried here for each of its functions, or the list of exceptions says why not', async () => {
    const folder = new URL('../../src/store/', import.meta.url);
    const files = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith('.ts'));
    const exported: string[] = [];
    for (const file of files) {
      const module: Record<string, unknown> = await import(new URL(file, folder).href);
      exported.push(...Object.keys(module).filter((name) => typeof module[name] === 'function'));
    }
    expect([...NAMES, ...EXEMPT].toSorted()).toEqual(exported.toSorted());
  });

  it('is done with the things of the tenant itself: each call finds something', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const numbers = fc.sample(fc.infiniteStream(fc.nat()), 1)[0] ?? [][Symbol.iterator]();
    const pick: Pick = (upto) => Number(numbers.next().value) % upto;
    let tenants = await openTenants(db);
    const finds = async (name: string): Promise<boolean> => {
      const draw = drawFrom(...tenants, pick, () => false);
      for (let left = 1_000; left > 0; left--) {
        if (!isNothing((await ask(db, name, tenants[0], draw)).value)) return true;
      }
      return false;
    };
    for (const name of NAMES) {
      if (await finds(name)) continue;
      // Earlier calls have used up the things that this one finds.
      tenants = await openTenants(db);
      expect(await finds(name), `${name} finds nothing`).toBe(true);
    }
  });

  it('touches and tells nothing of another tenant, whatever ids a call names', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const tables = await findTables(db);
    await fc.assert(
      fc.asyncProperty(fc.shuffledSubarray(NAMES, { minLength: NAMES.length }), fc.gen(), async (names, gen) => {
        const tenants = await openTenants(db);
        for (const name of names) {
          const [me, other] = gen(fc.boolean) ? tenants : tenants.toReversed();
          if (me === undefined || other === undefined) return;
          const pick = (upto: number) => gen(fc.nat, { max: upto - 1 });
          const before = await readRows(db, tables, other.id);
          // Not all ids are foreign: a refusal because of one id hides the treatment of the next one.
          const answer = await ask(
            db,
            name,
            me,
            drawFrom(me, other, pick, () => pick(3) > 0),
          );
          expect(await readRows(db, tables, other.id), `${name} changes rows of the other tenant`).toEqual(before);
          expect(answer.says, name).not.toContain(other.secret);
          if (answer.refused !== undefined) continue;
          const others = idsIn([...before.values()].join('\n'));
          const own = idsIn([...(await readRows(db, tables, me.id)).values()].join('\n'));
          expect(
            [...idsIn(answer.says)].filter((id) => others.has(id) && !own.has(id)),
            `${name} tells ids of the other`,
          ).toEqual([]);
        }
        expect(await mixedRows(db)).toEqual([]);
      }),
      { numRuns: propertyRuns(0.08), endOnFailure: true },
    );
  });
});
