/** A file of a message or of a tool output. */
type ShownFile = Readonly<{ mediaType: string; url: string; filename?: string | undefined }>;

const IMAGES: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

/** The page's backend serves files of the service; any other URL was named by a person or a model. */
const isAddress = (url: string): boolean => /^(?:\/v1\/blobs\/|https?:)/i.test(url);

/** Shows an image; offers any other file as a download. */
export function FileView({ file: { mediaType, url, filename } }: Readonly<{ file: ShownFile }>) {
  const name = filename ?? mediaType;
  if (!isAddress(url)) return <span className="file">{name}</span>;
  if (!IMAGES.has(mediaType)) {
    return (
      <a className="file" href={url} download={name}>
        ⬇ {name}
      </a>
    );
  }
  return (
    <a className="file" href={url} target="_blank" rel="noreferrer">
      <img src={url} alt={name} />
    </a>
  );
}

/** The files of a tool output, which may be a list of texts and files. */
export function filesIn(output: unknown): readonly ShownFile[] {
  return Array.isArray(output) ? output.filter(isFile) : [];
}

function isFile(item: unknown): item is ShownFile {
  const { type, mediaType, url } = Object(item) as Readonly<Record<string, unknown>>;
  return type === 'file' && typeof mediaType === 'string' && typeof url === 'string';
}
