/**
 * Settings of all connections that run statements often. Postgres keeps the plan of a statement. One made while a table
 * is small reads the whole table, and still does so when the table has grown, until the next ANALYZE. So plans use
 * indexes wherever there is one. For a statement without one, Postgres before version 18 estimates a cost of 1e10 and
 * would compile the plan, which takes longer than such a statement: so it compiles none.
 */
export const PLAN_SETTINGS = { enable_seqscan: 'off', jit: 'off' };
