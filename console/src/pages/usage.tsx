import type { UsageReport } from '@baton-run/server/client';
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { type ReactNode, useMemo } from 'react';
import { client } from '../api.ts';
import { clipped, cost, count, percent, shortCount } from '../format.ts';
import { LacksScope, ReachSwitch, useReach } from '../layout/reach.tsx';
import { Choice } from '../ui/choice.tsx';
import { Empty, Failure, SkeletonRows } from '../ui/empty.tsx';
import { Page } from '../ui/page.tsx';
import { Wide } from '../ui/wide.tsx';
import { CHART_COLORS, UsageChart } from './usage-chart.tsx';
import { DIMENSIONS, type Dimension, USAGE_WINDOWS, type UsageFilter } from './usage-filter.ts';
import { daysOf, type Sums, sumOfAll, sumsBy } from './usage-sums.ts';
import { sinceOf, windowWords } from './window.ts';

const READ_AGAIN_AFTER_MS = 30_000;

/** Tokens and cost per day, by agent, model or tenant. */
export function UsagePage(): ReactNode {
  const filter = useSearch({ from: '/usage' });
  const navigate = useNavigate({ from: '/usage' });
  const { reach } = useReach(filter.all);
  const report = useUsage(filter, reach);
  const change = (part: Partial<Record<keyof UsageFilter, unknown>>): void => {
    const entries = Object.entries({ ...filter, ...part }).filter(([, value]) => value !== undefined);
    void navigate({ search: Object.fromEntries(entries) as UsageFilter, replace: true });
  };
  if (reach === null) return <LacksScope scopes="read or operator" />;
  const by = dimensionOf(filter, reach);
  return (
    <Page
      title="Usage"
      tools={
        <>
          <Choice
            label="By"
            any="by agent"
            value={by === 'agent' ? undefined : by}
            values={DIMENSIONS.filter((each) => each !== 'agent' && (each !== 'tenant' || reach === 'all'))}
            wordsOf={(name) => `by ${name}`}
            change={(name) => change({ by: name })}
          />
          <Choice
            label="Since"
            any="last 30 days"
            value={filter.since}
            values={USAGE_WINDOWS}
            wordsOf={(since) => `last ${windowWords(since)}`}
            change={(since) => change({ since })}
          />
          <Choice
            label="Unit"
            any="tokens"
            value={filter.unit}
            values={['cost']}
            wordsOf={() => 'US dollars'}
            change={(unit) => change({ unit })}
          />
          <ReachSwitch all={filter.all} change={(all) => change({ all })} />
          {report.data?.complete === false && (
            <span className="text-dim">So many runs that only the newest are counted.</span>
          )}
        </>
      }
    >
      {report.isPending ? (
        <>
          <div className="skeleton m-4 h-56" />
          <SkeletonRows rows={5} height={32} />
        </>
      ) : report.isError && report.data === undefined ? (
        <Failure error={report.error} retry={() => void report.refetch()} />
      ) : report.data.rows.length === 0 ? (
        <Empty title={`No run was created in the last ${windowWords(filter.since ?? '30d')}`}>
          <p>Tokens and costs of runs stand here as soon as there are any.</p>
          <Link to="/playground" className="button main">
            Open the Playground
          </Link>
        </Empty>
      ) : (
        <Report report={report.data} by={by} unit={filter.unit ?? 'tokens'} />
      )}
    </Page>
  );
}

/** Tenants are told apart only where there are several. */
const dimensionOf = ({ by = 'agent' }: UsageFilter, reach: 'tenant' | 'all' | null): Dimension =>
  by === 'tenant' && reach !== 'all' ? 'agent' : by;

const useUsage = (filter: UsageFilter, reach: 'tenant' | 'all' | null) => {
  const by = dimensionOf(filter, reach);
  return useQuery({
    queryKey: ['usage', reach, by, filter.since],
    queryFn: ({ signal }) => {
      const since = sinceOf(filter.since ?? '30d');
      if (reach === 'all') return client.operator.usage({ by: ['day', by], since, signal });
      return client.usage({ by: ['day', by === 'tenant' ? 'agent' : by], since, signal });
    },
    enabled: reach !== null,
    refetchInterval: READ_AGAIN_AFTER_MS,
    placeholderData: (before, query) => (query?.queryKey[2] === by ? before : undefined),
  });
};

function Report({
  report,
  by,
  unit,
}: Readonly<{ report: UsageReport; by: Dimension; unit: 'tokens' | 'cost' }>): ReactNode {
  const sums = useMemo(() => sumsBy(report.rows, by), [report, by]);
  const named = sums.slice(0, CHART_COLORS.length - 1).map(({ name }) => name);
  const data = useMemo(() => daysOf(report, by, unit, named), [report, by, unit, named]);
  const all = sumOfAll(report.rows);
  const label = `${unit === 'cost' ? 'Cost' : 'Tokens'} per day by ${by}; the table below has the sums`;
  return (
    <div className="max-w-6xl">
      <dl className="flex flex-wrap gap-x-10 gap-y-2 px-3 pt-4">
        <Total name="Tokens in" value={shortCount(all.inputTokens)} exact={`${count(all.inputTokens)} tokens`} />
        <Total name="of these cached" value={percent(shareOf(all))} exact={`${count(all.cachedTokens)} tokens`} />
        <Total name="Tokens out" value={shortCount(all.outputTokens)} exact={`${count(all.outputTokens)} tokens`} />
        <Total name="Cost" value={cost(all.costUsd)} exact={costTitle(all)} />
        <Total name="Runs" value={count(all.runs)} exact={`${count(all.steps)} steps`} />
        <Total name="of these failed" value={count(all.failedRuns)} exact={`${count(all.failedRuns)} runs`} />
      </dl>
      <div className="px-3 pt-4">
        <UsageChart data={data} unit={unit} label={label} />
      </div>
      <Wide label="Sums" className="px-3 pb-4">
        <table className="table">
          <thead>
            <tr>
              <th className="capitalize">{by}</th>
              <th className="number">Runs</th>
              <th className="number">Failed</th>
              <th className="number">Steps</th>
              <th className="number">Tokens in</th>
              <th className="number">Cached</th>
              <th className="number">Tokens out</th>
              <th className="number">Cost</th>
            </tr>
          </thead>
          <tbody>
            {sums.map((each) => (
              <tr key={each.name}>
                <td className="max-w-80 truncate" dir="auto" title={clipped(each.name, 500)}>
                  {clipped(each.name, 200)}
                </td>
                <td className="number">{count(each.runs)}</td>
                <td className={`number ${each.failedRuns > 0 ? 'text-failed' : 'text-dim'}`}>
                  {count(each.failedRuns)}
                </td>
                <td className="number">{count(each.steps)}</td>
                <td className="number">{count(each.inputTokens)}</td>
                <td className="number">{percent(shareOf(each))}</td>
                <td className="number">{count(each.outputTokens)}</td>
                <td className="number" title={costTitle(each)}>
                  {cost(each.costUsd)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
        <p className="pt-2 text-sm text-dim">
          Days are in UTC. A run counts on the day of its creation. Deleted sessions are not in it.
        </p>
      </Wide>
    </div>
  );
}

const shareOf = ({ inputTokens, cachedTokens }: Sums): number => (inputTokens === 0 ? 0 : cachedTokens / inputTokens);

const costTitle = ({ costUsd }: Sums): string =>
  costUsd === null ? 'The price of some call is unknown: name it in the models file' : `$${costUsd}`;

function Total({ name, value, exact }: Readonly<{ name: string; value: string; exact: string }>): ReactNode {
  return (
    <div title={exact}>
      <dt className="text-sm text-dim">{name}</dt>
      <dd className="text-lg font-semibold">{value}</dd>
    </div>
  );
}
