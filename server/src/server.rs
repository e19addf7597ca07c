//! [`Server`]: the routes of a namespace, to mount or to serve.

use std::{sync::Arc, time::Duration};

use axum::{Router, http::Uri};
use tokio_util::sync::CancellationToken;
use windlass::{
    Invalid, Json, Kind,
    store::{Store, for_other_processes},
};

use crate::{
    app::{App, Check, Metrics, Options},
    auth::TrustedHeader,
    origin::without_port,
    routes,
    settings::{Settings, TlsFiles},
};

/// Makes a [`Server`]. Start with [`Server::builder`].
#[derive(Clone)]
#[must_use = "a builder serves nothing"]
pub struct Builder {
    store: Store,
    settings: Settings,
    check: Check,
    metrics: Option<Metrics>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}

/// The routes of a namespace. Several servers may serve one namespace.
///
/// # Example
///
/// A program mounts the routes beside its own. Each request then needs a token, and a `Host` that the builder names.
///
/// ```
/// use windlass::store::Store;
/// use windlass_server::{Server, axum::{Router, routing::get}};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
/// let store = Store::open("memory:").await?;
/// let tasks = Server::builder(&store).host("jobs.example.com").base_path("/tasks")?.build();
/// let app: Router = Router::new().route("/", get(|| async { "hello" })).merge(tasks.router());
/// # drop(app);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Server {
    pub(crate) app: Arc<App>,
    router: Router,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Builder {
    /// Adds a name by which the server is called: a request whose header `Host` has another name is refused with 421, so
    /// that no page whose name was made to point here can use it. `localhost`, `127.0.0.1` and `[::1]` are known. A name counts
    /// with every port; that of `tasks.example.com:7474` is left out.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.settings.hosts.push(without_port(&name).to_owned());
        self
    }

    /// Sets the path below which the routes are: `/tasks`. None by default.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `base path`) for a path that does not begin with `/`, ends with one, has characters that a
    /// route gives a meaning, or a part that clients resolve (`..`) or take for the beginning of the API (`v1`).
    pub fn base_path(mut self, path: impl Into<String>) -> Result<Self, Invalid> {
        let path = path.into();
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"/._-".contains(&b);
        let is_path = path.starts_with('/') && !path.ends_with('/') && !path.contains("//");
        if !(path.is_empty() || is_path && path.bytes().all(fits)) {
            let what = format!("'{path}' is not a path such as /windlass or /ops/windlass");
            return Err(Invalid::new("base path", what));
        }
        let odd = path
            .split('/')
            .find(|part| matches!(*part, "." | ".." | "v1"));
        if let Some(part) = odd {
            let why = match part {
                "v1" => {
                    "with which the paths of the API begin themselves: /v1/tasks would be /v1/v1/tasks"
                }
                _ => "which clients resolve, so that no request has it",
            };
            let what = format!(
                "'{path}' has the part '{part}', {why}; give a path such as /windlass, or none"
            );
            return Err(Invalid::new("base path", what));
        }
        self.settings.base_path = path;
        Ok(self)
    }

    /// Sets the most bytes of a body, and of a line of a body of lines; 8 MiB by default.
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.settings.body_bytes = bytes;
        self
    }

    /// Sets the most exchanges of workers that are open at once; 4,096 by default. They count neither as requests in work, nor
    /// in the rate of their caller, so that many workers with one token can wait for tasks. One more is refused with 503.
    pub fn max_workers(mut self, exchanges: usize) -> Self {
        self.settings.workers = exchanges;
        self
    }

    /// Sets the most requests in work at once; 1,024 by default, a quarter of them of one caller. As many waits and streams have
    /// places of their own, and so have as many reports and registrations of workers. A wait without a place ends early.
    pub fn max_in_flight(mut self, requests: usize) -> Self {
        self.settings.in_flight = requests;
        self
    }

    /// Sets how many requests a caller may make each second; 1,000 by default. More are refused with 429.
    pub fn rate(mut self, requests: u32) -> Self {
        self.settings.rate = requests;
        self
    }

    /// Sets the most connections that are open at once; 8,192 by default, of which workers may have half. When one more comes, the
    /// oldest on which no known caller has sent a request is closed for it, and otherwise it waits until one is closed.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.settings.connections = connections;
        self
    }

    /// Sets the longest wait of a request; 5 minutes by default. A request that asks for more is refused.
    pub fn longest_wait(mut self, time: Duration) -> Self {
        self.settings.longest_wait = time;
        self
    }

    /// Sets the files of the certificate for addresses with TLS. They are read again within seconds of a change.
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.settings.tls = Some(files);
        self
    }

    /// Adds a URL by which clients reach the server, with the base path. Other servers of the namespace name it to the clients
    /// whose waits and streams they end, and `GET /v1/servers` lists it.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `url`) for a text that is not a URL of `http` or `https`, or one with a user.
    pub fn advertise(mut self, url: impl Into<String>) -> Result<Self, Invalid> {
        let url = url.into();
        let read = url.parse::<Uri>().ok();
        let is_fit = read.as_ref().is_some_and(|url| {
            let has_user = url.authority().is_some_and(|at| at.as_str().contains('@'));
            matches!(url.scheme_str(), Some("http" | "https")) && !has_user && url.query().is_none()
        });
        if !is_fit {
            let what = format!(
                "'{url}' is not a URL such as https://tasks.example.com/base, without a user"
            );
            return Err(Invalid::new("url", what));
        }
        self.settings.advertised.push(url);
        Ok(self)
    }

    /// Names the store as the option `--store` of the command line does, so that the pages say for which store their commands are;
    /// without a name they are for the default one. A URL that only this process can use, or with a password, is not shown.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::store::Store;
    /// use windlass_server::Server;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let store = Store::open("memory:").await?;
    /// let server = Server::builder(&store).store_url("etcd://etcd.example.com:2379/jobs").build();
    /// # drop(server);
    /// # Ok(()) }
    /// ```
    pub fn store_url(mut self, url: &str) -> Self {
        self.settings.store = for_other_processes(url);
        self
    }

    /// Takes the user from a header of a proxy.
    pub fn trust_header(mut self, header: TrustedHeader) -> Self {
        self.settings.trusted = Some(header);
        self
    }

    /// Checks the props of each new task; by default every kind takes any props.
    pub fn check(
        mut self,
        check: impl Fn(&Kind, &Json) -> Result<(), Invalid> + Send + Sync + 'static,
    ) -> Self {
        self.check = Arc::new(check);
        self
    }

    /// Shows metrics at `/metrics`: what the exporter of the program returns, as text for Prometheus. Without one there is no
    /// such page. It is shown to callers with the role `read` and without a scope.
    pub fn metrics(mut self, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.metrics = Some(Arc::new(render));
        self
    }

    /// Builds the server, and starts to follow the tokens of the namespace. Call it within a tokio runtime.
    pub fn build(self) -> Server {
        let options = Options {
            settings: self.settings,
            check: self.check,
            metrics: self.metrics,
        };
        let app = App::new(&self.store, options, CancellationToken::new());
        let router = routes::router(&app);
        Server { app, router }
    }
}

impl Server {
    /// Begins to make a server of a store.
    pub fn builder(store: &Store) -> Builder {
        Builder {
            store: store.clone(),
            settings: Settings::default(),
            check: Arc::new(|_, _| Ok(())),
            metrics: None,
        }
    }

    /// Returns the routes.
    pub fn router(&self) -> Router {
        self.router.clone()
    }
}
