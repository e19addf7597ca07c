//! [`Server`]: sends requests to a server of a namespace, on a Unix socket or by TCP.

use std::{
    fmt::{self, Display, Formatter},
    path::{Path, PathBuf},
    time::Duration,
};

use http_body_util::{BodyExt, Empty, Limited};
use hyper::{
    Request,
    body::Bytes,
    client::conn::http1::{SendRequest, handshake},
    header::{AUTHORIZATION, HOST, HeaderValue},
};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::timeout,
};

use crate::{exit::Failure, text::one_line};

/// The largest answer that is read.
const MOST: usize = 64 << 20;
/// How long a connection and each answer may take.
const BOUND: Duration = Duration::from_secs(10);
/// The port of a URL without one: that of `windlass serve`.
const PORT: u16 = 7474;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Address {
    Socket(PathBuf),
    Tcp { host: String, port: u16 },
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// A server of a namespace.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    at: Address,
    /// The value of the header `Host`.
    host: HeaderValue,
    /// The path below which the requests are.
    base: String,
    token: Option<HeaderValue>,
}

/// A connection to a server.
pub(crate) struct Connection<'s> {
    server: &'s Server,
    requests: SendRequest<Empty<Bytes>>,
}

/// Returns the token of the file, or of the variable `WINDLASS_TOKEN`.
///
/// # Errors
///
/// A file that cannot be read.
pub(crate) fn token(file: Option<&Path>) -> Result<Option<String>, Failure> {
    let text = match file {
        Some(file) => std::fs::read_to_string(file)
            .map_err(|error| Failure::file(&file.display().to_string(), &error))?,
        None => std::env::var("WINDLASS_TOKEN").unwrap_or_default(),
    };
    let token = text.trim();
    Ok((!token.is_empty()).then(|| token.to_owned()))
}

impl Server {
    /// Reads the address of a server: `unix:PATH`, or `http://HOST:PORT` with a path below which the server has its requests.
    ///
    /// # Errors
    ///
    /// An address of another form, and TCP without a token.
    pub(crate) fn new(url: &str, token: Option<String>) -> Result<Self, Failure> {
        let wrong = |why: &str| {
            let form = "give unix:PATH, or http://HOST:PORT";
            Failure::Usage(format!("--server: '{}' {why}; {form}", one_line(url)))
        };
        let token = token.map(|token| bearer(&token)).transpose()?;
        if let Some(path) = url.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(wrong("has no path"));
            }
            return Ok(Self {
                at: Address::Socket(path.into()),
                host: HeaderValue::from_static("localhost"),
                base: String::new(),
                token,
            });
        }
        if url.starts_with("https:") {
            return Err(Failure::Usage(
                "--server: https is not supported; forward a port of the server's machine (ssh -L 7474:localhost:7474 HOST), \
                 or give unix:PATH there"
                    .to_owned(),
            ));
        }
        let Some(rest) = url.strip_prefix("http://") else {
            return Err(wrong("is not the address of a server"));
        };
        let (authority, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains(['@', ' ']) || base.contains(['?', '#']) {
            return Err(wrong("has more than a host, a port and a path"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            // The last colon of an IPv6 address without a port is within the brackets.
            Some((host, port)) if !port.contains(']') => (host, port.parse().ok()),
            _ => (authority, Some(PORT)),
        };
        let Some(port) = port.filter(|_| !host.is_empty()) else {
            return Err(wrong("has no host or a wrong port"));
        };
        if token.is_none() {
            return Err(Failure::Usage(
                "--server: a server on TCP needs a token: put it into the variable WINDLASS_TOKEN or into a file for --token-file \
                 (`windlass token new NAME --role read` makes one), or give unix:PATH"
                    .to_owned(),
            ));
        }
        Ok(Self {
            at: Address::Tcp {
                host: host.trim_matches(['[', ']']).to_owned(),
                port,
            },
            host: HeaderValue::from_str(authority).map_err(|_| wrong("has a wrong host"))?,
            base: base.trim_end_matches('/').to_owned(),
            token,
        })
    }

    /// Returns the failure of a server that does not answer a request in time.
    pub(crate) fn silent(&self, request: &str) -> Failure {
        Failure::Store(format!(
            "the server at {} has not answered {request} in time; look at its log, and at its process",
            self.at
        ))
    }

    /// Connects to the server.
    ///
    /// # Errors
    ///
    /// When it cannot be reached.
    pub(crate) async fn connect(&self) -> Result<Connection<'_>, Failure> {
        let unreachable = |error: &dyn Display| {
            let text = format!(
                "could not reach the server at {}: {error}; does `windlass serve` run there?",
                self.at
            );
            Failure::Store(text)
        };
        let connect = async {
            match &self.at {
                Address::Socket(path) => {
                    let stream = UnixStream::connect(path).await;
                    requests(stream.map_err(|error| unreachable(&error))?).await
                }
                Address::Tcp { host, port } => {
                    let stream = TcpStream::connect((host.as_str(), *port)).await;
                    requests(stream.map_err(|error| unreachable(&error))?).await
                }
            }
        };
        let connected = timeout(BOUND, connect).await;
        let requests = connected.map_err(|_| unreachable(&"it does not answer"))??;
        Ok(Connection {
            server: self,
            requests,
        })
    }
}

fn bearer(token: &str) -> Result<HeaderValue, Failure> {
    // The token is a secret: no message shows it.
    let wrong = |_| Failure::Usage("the token has characters that no token has".to_owned());
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(wrong)?;
    value.set_sensitive(true);
    Ok(value)
}

async fn requests<S>(stream: S) -> Result<SendRequest<Empty<Bytes>>, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (requests, connection) = handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // It ends when the requests are dropped.
    tokio::spawn(connection);
    Ok(requests)
}

fn broken(error: hyper::Error) -> Failure {
    Failure::Store(format!("the connection to the server broke: {error}"))
}

impl Connection<'_> {
    /// Returns the answer to `GET`, read as JSON.
    ///
    /// # Errors
    ///
    /// When the server refuses the request, or does not answer.
    pub(crate) async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, Failure> {
        let answer = timeout(BOUND, self.answer(path)).await;
        answer.map_err(|_| self.server.silent(&format!("GET {path}")))?
    }

    async fn answer<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, Failure> {
        let server = self.server;
        let mut request = Request::get(format!("{}{path}", server.base));
        if let Some(token) = &server.token {
            request = request.header(AUTHORIZATION, token);
        }
        let request = request.header(HOST, &server.host).body(Empty::new());
        let request = request.map_err(|error| Failure::Usage(format!("--server: {error}")))?;
        self.requests.ready().await.map_err(broken)?;
        let answer = self.requests.send_request(request).await.map_err(broken)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MOST).collect().await;
        let cut = |error| Failure::Store(format!("the answer to GET {path} broke off: {error}"));
        let body = body.map_err(cut)?.to_bytes();
        if !status.is_success() {
            let problem = serde_json::from_slice::<serde_json::Value>(&body).unwrap_or_default();
            let detail = problem["detail"].as_str().unwrap_or("without a reason");
            return Err(Failure::Store(format!(
                "the server refused GET {path} ({}): {}",
                status.as_u16(),
                one_line(detail)
            )));
        }
        serde_json::from_slice(&body).map_err(|error| {
            let text = format!("the answer to GET {path} is not that of this version: {error}");
            Failure::Store(text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<(Address, String, String), String> {
        let server = Server::new(url, Some("t".to_owned())).map_err(|error| error.to_string())?;
        let host = server.host.to_str().unwrap().to_owned();
        Ok((server.at, host, server.base))
    }

    #[test]
    fn addresses_are_read_and_others_are_refused_with_the_reason() {
        let tcp = |host: &str, port| Address::Tcp {
            host: host.to_owned(),
            port,
        };
        for (url, at, host, base) in [
            (
                "unix:run/s.sock",
                Address::Socket("run/s.sock".into()),
                "localhost",
                "",
            ),
            ("http://localhost", tcp("localhost", 7474), "localhost", ""),
            ("http://[::1]", tcp("::1", 7474), "[::1]", ""),
            ("http://[::1]:80/", tcp("::1", 80), "[::1]:80", ""),
            (
                "http://a.example:80/tasks/",
                tcp("a.example", 80),
                "a.example:80",
                "/tasks",
            ),
        ] {
            let expected = (at, host.to_owned(), base.to_owned());
            assert_eq!(read(url), Ok(expected), "{url}");
        }
        for (url, says) in [
            ("https://a.example", "https is not supported"),
            ("unix:", "has no path"),
            (
                "localhost:7474",
                "is not the address of a server; give unix:PATH, or http://HOST:PORT",
            ),
            ("http://:80", "has no host or a wrong port"),
            ("http://a:b", "has no host or a wrong port"),
            ("http://me:secret@a", "has more than a host"),
            ("http://a/?x", "has more than a host"),
            ("http://a b", "has more than a host"),
            ("http://a\u{7f}b", "has a wrong host"),
        ] {
            let error = read(url).unwrap_err();
            assert!(error.contains(says), "{url}: {error}");
        }
    }

    #[test]
    fn tcp_needs_a_token_and_no_message_shows_one() {
        let none = Server::new("http://localhost", None).unwrap_err();
        assert!(none.to_string().contains("WINDLASS_TOKEN"), "{none}");
        assert!(Server::new("unix:s.sock", None).is_ok());
        let wrong = Server::new("unix:s.sock", Some("se\ncret".to_owned())).unwrap_err();
        assert!(!wrong.to_string().contains("cret"), "{wrong}");
        let server = Server::new("unix:s.sock", Some("secret".to_owned())).unwrap();
        assert!(!format!("{server:?}").contains("secret"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_is_named() -> Result<(), Box<dyn std::error::Error>> {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let at = silent.local_addr()?;
        let server = Server::new(&format!("http://{at}"), Some("t".to_owned()))?;
        let mut connection = server.connect().await?;
        let answer = connection.get::<serde_json::Value>("/v1/why").await;
        let error = answer.unwrap_err().to_string();
        let says = format!("the server at {at} has not answered GET /v1/why in time");
        assert!(error.contains(&says), "{error}");
        Ok(())
    }
}
