import type { ReactNode } from 'react';

type PageProps = Readonly<{
  title: string;
  /** Filters and actions beside the title. */
  tools?: ReactNode;
  children: ReactNode;
}>;

/** A page with its title and tools in a bar. What is below scrolls. */
export function Page({ title, tools, children }: PageProps): ReactNode {
  return (
    <div className="flex h-full flex-col">
      <div className="flex min-h-9.25 flex-none flex-wrap items-center gap-2 border-b border-line px-3 py-1.5">
        <h1 className="mr-2 leading-6">{title}</h1>
        {tools}
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolled region must be reached by keys. */}
      <section className="min-h-0 flex-1 overflow-auto" aria-label={title} tabIndex={0} data-scroller="">
        {children}
      </section>
    </div>
  );
}
