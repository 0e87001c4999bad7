import type { RequestContext } from "../http/serveRequests.ts";
import type { MachineCatalog } from "../machines/catalog.ts";

export interface FilesContext extends Pick<RequestContext, "limits" | "metrics" | "logger" | "journal"> {
  machines: MachineCatalog;
}
