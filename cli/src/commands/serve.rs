//! `windlass serve`: the store by HTTP.

use std::{
    io::IsTerminal,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use tokio::signal::unix::{SignalKind, signal};
use tracing::info;
use windlass::Client;
use windlass_server::{Builder, Listen, Role, Serving, Sessions, TlsFiles, TrustedHeader};

use crate::{
    commands::worker::{STORE_WAIT, signals},
    exit::{Exit, Failure},
    global::Global,
    metrics::Exporter,
    output::Output,
    parse::{bytes, from_one},
    serving::{BuiltIn, GRACE, builder},
};

/// Where and how to serve.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Pages for people are at /: the link that is printed on a terminal opens a session, and `windlass token link` prints more.
The socket is for the user who serves, and needs no token. By TCP each request needs one:
  export TOKEN=$(windlass token new me --role operate)
  curl -H \"Authorization: Bearer $TOKEN\" http://localhost:7474/v1/tasks

Examples:
  windlass serve
  windlass serve --listen 127.0.0.1:7474 --no-socket
  windlass serve --tls 0.0.0.0:7474 --tls-cert cert.pem --tls-key key.pem --host tasks.example.com
  windlass serve --behind-proxy 10.0.0.5:7474 --host tasks.example.com
  windlass serve --behind-proxy 10.0.0.5:7474 --host tasks.example.com \\
    --trust-header X-Forwarded-User --trust-from 10.0.0.1 \\
    --trust-user ann=admin --trust-user '*=read'")]
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

    /// Listen on this address with TLS, for other machines
    #[arg(long, value_name = "ADDRESS", requires = "tls_cert")]
    tls: Vec<SocketAddr>,

    /// The certificate for TLS, followed by those that sign it (PEM). It is read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Listen on the sockets that systemd has opened (socket activation), and on no others unless they are given. Sockets
    /// that other machines reach need --tls-cert
    #[arg(long)]
    passed: bool,

    /// Take the user from this header of a proxy, which has checked who it is. With it the user of the socket needs a token
    /// or the header, too
    #[arg(long, value_name = "HEADER", requires = "trust_user")]
    trust_header: Option<String>,

    /// Take the header from a proxy with this address; without it, only from the socket
    #[arg(long, value_name = "IP", requires = "trust_header")]
    trust_from: Vec<IpAddr>,

    /// Give a user of the proxy a role: ann=operate; '*=read' for every other user
    #[arg(long, value_name = "USER=ROLE", requires = "trust_header", value_parser = user_role)]
    trust_user: Vec<(String, Role)>,

    /// Answer requests for this name too, with any port; localhost, 127.0.0.1 and [::1] are known
    #[arg(long = "host", value_name = "NAME", value_parser = host)]
    hosts: Vec<String>,

    /// Name this URL, with the base path, to the clients of other servers of the store when those stop
    #[arg(long, value_name = "URL")]
    advertise: Vec<String>,

    /// Serve below this path, such as /windlass
    #[arg(long, value_name = "PATH", default_value = "")]
    base_path: String,

    /// Open this page by the link that is printed, such as '/tasks?kind=report'
    #[arg(long, value_name = "PATH", default_value = "/", value_parser = page)]
    page: String,

    /// Allow each caller this many requests a second
    #[arg(long, value_name = "NUMBER", default_value = "1000", value_parser = from_one::<u32>)]
    rate: u32,

    /// Let this many exchanges of remote workers be open at once: each worker has one
    #[arg(long, value_name = "NUMBER", default_value = "4096", value_parser = from_one::<u32>)]
    max_workers: u32,

    /// Refuse bodies of more bytes than this
    #[arg(long, value_name = "BYTES", default_value = "8M", value_parser = body)]
    max_body: u64,
}

impl Args {
    async fn listens(&self, client: &Client) -> Result<Vec<Listen>, Failure> {
        let mut listens = match self.passed {
            true => passed()?,
            false => Vec::new(),
        };
        match &self.socket {
            Some(path) => listens.push(Listen::Socket(path.clone())),
            None if self.no_socket || self.passed => {}
            None => listens.push(Listen::Socket(default_socket(client).await?)),
        }
        let addresses = [&self.listen, &self.behind_proxy, &self.tls];
        if !self.passed && addresses.iter().all(|all| all.is_empty()) {
            listens.push(Listen::Loopback(SocketAddr::from(([127, 0, 0, 1], 7474))));
        }
        listens.extend(self.tls.iter().copied().map(Listen::Tls));
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

/// Returns the sockets that systemd has opened for this process.
fn passed() -> Result<Vec<Listen>, Failure> {
    let mut all = listenfd::ListenFd::from_env();
    let mut listens = Vec::new();
    for n in 0..all.len() {
        let number = n + 1;
        if let Ok(Some(socket)) = all.take_unix_listener(n) {
            listens.push(Listen::PassedSocket(socket));
        } else if let Ok(Some(listener)) = all.take_tcp_listener(n) {
            listens.push(Listen::Passed(listener));
        } else {
            let text =
                format!("--passed: socket {number} is neither a Unix stream socket nor a TCP one");
            return Err(Failure::Usage(text));
        }
    }
    if listens.is_empty() {
        let text = "--passed: no socket was passed to this process (LISTEN_FDS is not set for it); start it by a socket unit of \
                    systemd, or leave the option out";
        return Err(Failure::Usage(text.to_owned()));
    }
    Ok(listens)
}

/// Reads a user of a proxy with its role.
fn user_role(text: &str) -> Result<(String, Role), String> {
    let pair = text.split_once('=').filter(|(user, _)| !user.is_empty());
    let (user, role) = pair.ok_or("is not USER=ROLE, such as ann=operate")?;
    let role: Role = role
        .parse()
        .map_err(|e: windlass::Invalid| e.reason().to_owned())?;
    Ok((user.to_owned(), role))
}

impl Args {
    fn builder(
        &self,
        global: &Global,
        client: &Client,
        exporter: &Exporter,
    ) -> Result<Builder, Failure> {
        let mut builder = builder(global, client, exporter)
            .base_path(&self.base_path)
            .map_err(|error| Failure::Usage(format!("--base-path: {}", error.reason())))?
            .rate(self.rate)
            .max_workers(usize::try_from(self.max_workers).unwrap_or(usize::MAX))
            .max_body(usize::try_from(self.max_body).unwrap_or(usize::MAX));
        for host in &self.hosts {
            builder = builder.host(host);
        }
        for url in &self.advertise {
            builder = builder
                .advertise(url)
                .map_err(|error| Failure::Usage(format!("--advertise: {}", error.reason())))?;
        }
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            builder = builder.tls(TlsFiles {
                certificate: certificate.clone(),
                key: key.clone(),
            });
        }
        if let Some(name) = &self.trust_header {
            let header = TrustedHeader::new(name)
                .map_err(|error| Failure::Usage(format!("--trust-header: {}", error.reason())))?;
            let mut header = header.from(self.trust_from.iter().copied());
            for (user, role) in &self.trust_user {
                header = match user.as_str() {
                    "*" => header.others(*role),
                    user => header.user(user, *role),
                };
            }
            builder = builder.trust_header(header);
        }
        Ok(builder)
    }
}

/// Reads a name of the server.
fn host(text: &str) -> Result<String, String> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "/\\*@?#,".contains(c);
    match text.is_empty() || text.starts_with(':') || text.contains(is_odd) {
        false => Ok(text.to_owned()),
        true => Err(format!(
            "'{text}' is no name that the header 'Host' of a request can have: write it like tasks.example.com, without http:// \
             and a path"
        )),
    }
}

/// Reads the most bytes of a body.
fn body(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        0 => Err("refuses every body; give at least 1, or leave it out for 8M".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Reads the path of a page.
fn page(text: &str) -> Result<String, String> {
    let is_odd = |c: char| c == '\\' || c.is_control();
    match text.starts_with('/') && !text.starts_with("//") && !text.contains(is_odd) {
        true => Ok(text.to_owned()),
        false => Err(
            "is no page of the server: write it like /tasks or '/tasks?kind=report', without the base path".to_owned(),
        ),
    }
}

/// Returns a text as it stands in a query.
pub(crate) fn encoded(text: &str) -> String {
    let byte = |b: u8| match b {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(b).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// The page that a link opens.
struct OpenedPage<'a> {
    serving: &'a Serving,
    base_path: &'a str,
    page: &'a str,
}

/// Prints a link that opens a session in a browser of this machine, for a person who reads it.
async fn print_link(client: &Client, out: &Output, opened: OpenedPage<'_>) -> Result<(), Failure> {
    let OpenedPage {
        serving,
        base_path,
        page,
    } = opened;
    let loopback = serving
        .addresses()
        .into_iter()
        .find(|at| at.ip().is_loopback());
    let Some(address) = loopback.filter(|_| std::io::stdout().is_terminal()) else {
        return Ok(());
    };
    let author = client.author().clone();
    let link = Sessions::new(client.store())
        .link(author, Role::Admin)
        .await?;
    let (host, port, path) = (link.host, address.port(), link.path);
    let page = match page {
        "/" => String::new(),
        page => format!("?to={}", encoded(page)),
    };
    // On the standard output, because a secret is no line of a log.
    out.line(format!(
        "open in a browser within 5 minutes, once: http://{host}:{port}{base_path}{path}{page}"
    ))
}

/// Serves until a signal.
///
/// # Errors
///
/// The reason why the server could not start.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.client_within(STORE_WAIT).await?;
    let mut ends = signal(SignalKind::terminate()).map_err(signals)?;
    let mut breaks = signal(SignalKind::interrupt()).map_err(signals)?;
    let listens = args.listens(&client).await?;
    let exporter = Exporter::install()?.namespace(&client);
    let server = args.builder(global, &client, &exporter)?.build();
    let serving = server.listen(listens).await?;
    let store = windlass::store::without_password(&global.store_url()?);
    for path in serving.sockets() {
        info!(socket = %path.display(), store, "listening");
    }
    for url in serving.urls() {
        info!(url, store, "listening");
    }
    let built_in = BuiltIn::start(&client);
    let opened = OpenedPage {
        serving: &serving,
        base_path: &args.base_path,
        page: &args.page,
    };
    print_link(&client, &global.out(), opened).await?;
    notify(sd_notify::NotifyState::Ready);
    let signal = tokio::select! {
        _ = ends.recv() => "SIGTERM",
        _ = breaks.recv() => "SIGINT",
    };
    info!(signal, "stopping: requests in work may end within 10 s");
    notify(sd_notify::NotifyState::Stopping);
    let stopped = async {
        tokio::join!(serving.shutdown(GRACE), built_in.stop());
    };
    tokio::select! {
        () = stopped => {}
        _ = breaks.recv() => info!("stopped at once by a second signal"),
    }
    info!("stopped");
    Ok(Exit::Ok)
}

/// Tells systemd how things are, if it has started the process.
fn notify(state: sd_notify::NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "systemd did not receive the state of the server");
    }
}
