//! `windlass serve`: the store by HTTP.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use tokio::signal::unix::{SignalKind, signal};
use tracing::info;
use windlass::Client;
use windlass_server::{Listen, Server};

use crate::{
    changed_props::check_props,
    commands::worker::{STORE_WAIT, signals},
    exit::{Exit, Failure},
    global::Global,
    parse::{bytes, from_one},
};

/// How long requests may take to end when the server stops.
const GRACE: Duration = Duration::from_secs(10);

/// Where and how to serve.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The socket is for the user who serves, and needs no token. By TCP each request needs one:
  export TOKEN=$(windlass token new me --role operate)
  curl -H \"Authorization: Bearer $TOKEN\" http://localhost:7474/v1/tasks

Examples:
  windlass serve
  windlass serve --listen 127.0.0.1:7474 --no-socket
  windlass serve --behind-proxy 10.0.0.5:7474 --host tasks.example.com")]
pub(crate) struct Args {
    /// Listen on this Unix socket; by default on one of the store in the folder for sockets of the user. Its folder must be
    /// closed to other users
    #[arg(long, value_name = "PATH", conflicts_with = "no_socket")]
    socket: Option<PathBuf>,

    /// Listen on no Unix socket
    #[arg(long)]
    no_socket: bool,

    /// Listen on this address of the machine itself (loopback); port 0 is any free one [default: 127.0.0.1:7474]
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<SocketAddr>,

    /// Listen on this address for a proxy that ends TLS. Tokens are sent in clear from the proxy to here
    #[arg(long, value_name = "ADDRESS")]
    behind_proxy: Vec<SocketAddr>,

    /// Answer requests for this name too; localhost, 127.0.0.1 and [::1] are known
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,

    /// Serve below this path, such as /windlass
    #[arg(long, value_name = "PATH", default_value = "")]
    base_path: String,

    /// Allow each caller this many requests a second
    #[arg(long, value_name = "NUMBER", default_value = "1000", value_parser = from_one::<u32>)]
    rate: u32,

    /// Refuse bodies of more bytes than this
    #[arg(long, value_name = "BYTES", default_value = "8M", value_parser = bytes)]
    max_body: u64,
}

impl Args {
    async fn listens(&self, client: &Client) -> Result<Vec<Listen>, Failure> {
        let mut listens = Vec::new();
        match &self.socket {
            Some(path) => listens.push(Listen::Socket(path.clone())),
            None if self.no_socket => {}
            None => listens.push(Listen::Socket(default_socket(client).await?)),
        }
        if self.listen.is_empty() && self.behind_proxy.is_empty() {
            listens.push(Listen::Loopback(SocketAddr::from(([127, 0, 0, 1], 7474))));
        }
        listens.extend(self.listen.iter().copied().map(Listen::Loopback));
        listens.extend(self.behind_proxy.iter().copied().map(Listen::BehindProxy));
        Ok(listens)
    }
}

/// Returns the socket of a store in the user's folder for sockets.
async fn default_socket(client: &Client) -> Result<PathBuf, Failure> {
    let identity = client.store().registry().identity().await?;
    let dirs = directories::ProjectDirs::from("", "", "windlass");
    let folder = dirs.map(|dirs| {
        let folder = dirs.runtime_dir().or_else(|| dirs.state_dir());
        folder.unwrap_or_else(|| dirs.data_local_dir()).to_owned()
    });
    let Some(folder) = folder else {
        let text = "--socket: there is no folder for sockets, because HOME is not set; give a path, or --no-socket";
        return Err(Failure::Usage(text.to_owned()));
    };
    Ok(folder.join("serve").join(format!("{identity}.sock")))
}

/// Serves until a signal.
///
/// # Errors
///
/// The reason why the server could not start.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.client_within(STORE_WAIT).await?;
    let mut builder = Server::builder(client.store())
        .base_path(&args.base_path)
        .map_err(|error| Failure::Usage(format!("--base-path: {}", error.reason())))?
        .rate(args.rate)
        .max_body(usize::try_from(args.max_body).unwrap_or(usize::MAX))
        .check(check_props);
    for host in &args.hosts {
        builder = builder.host(host);
    }
    let mut ends = signal(SignalKind::terminate()).map_err(signals)?;
    let mut breaks = signal(SignalKind::interrupt()).map_err(signals)?;
    let listens = args.listens(&client).await?;
    let serving = builder.build().listen(listens).await?;
    let store = windlass::store::without_password(&global.store_url()?);
    for path in serving.sockets() {
        info!(socket = %path.display(), store, "listening");
    }
    for address in serving.addresses() {
        info!(url = %format!("http://{address}{}", args.base_path), store, "listening");
    }
    let signal = tokio::select! {
        _ = ends.recv() => "SIGTERM",
        _ = breaks.recv() => "SIGINT",
    };
    info!(signal, "stopping: requests in work may end within 10 s");
    tokio::select! {
        () = serving.shutdown(GRACE) => {}
        _ = breaks.recv() => info!("stopped at once by a second signal"),
    }
    info!("stopped");
    Ok(Exit::Ok)
}
