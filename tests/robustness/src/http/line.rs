//! [`Line`]: a proxy between clients and servers. Each connection carries one request, and may be cut, delayed or
//! repeated.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use crate::BoxError;

/// The longest delay.
const LATEST: u64 = 200;
/// How long a stream lasts at most before it is cut, in milliseconds.
const STREAM: u64 = 1200;
/// How long a server may take to answer the line.
const ANSWER: Duration = Duration::from_secs(20);

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Nothing.
    None,
    /// The server gets a part of the request.
    CutRequest,
    /// The server gets the request, and the client a part of the answer, or nothing.
    CutAnswer,
    /// The request is late.
    DelayRequest,
    /// The answer is late.
    DelayAnswer,
    /// The server gets the request twice, one after the other, and the client one of the answers.
    Repeat,
    /// Both servers get the request at the same time, and the client one of the answers.
    RepeatTogether,
    /// A stream ends in the middle.
    CutStream,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 7] = [
        Self::CutRequest,
        Self::CutAnswer,
        Self::DelayRequest,
        Self::DelayAnswer,
        Self::Repeat,
        Self::RepeatTogether,
        Self::CutStream,
    ];

    fn draw(rng: &mut fastrand::Rng) -> Self {
        match rng.u8(..16) {
            0 | 1 => Self::CutRequest,
            2..=4 => Self::CutAnswer,
            5 | 6 => Self::DelayRequest,
            7 | 8 => Self::DelayAnswer,
            9 | 10 => Self::Repeat,
            11 | 12 => Self::RepeatTogether,
            _ => Self::None,
        }
    }
}

/// The proxy. Dropping it ends every connection.
#[derive(Debug)]
pub struct Line {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    servers: Vec<SocketAddr>,
    calm: AtomicBool,
    happened: Mutex<BTreeMap<Fault, u64>>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Line {
    /// Opens a line to these servers.
    ///
    /// # Errors
    ///
    /// When there is no port.
    pub async fn to(servers: Vec<SocketAddr>, seed: u64) -> Result<Self, BoxError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            servers,
            calm: AtomicBool::new(false),
            happened: Mutex::default(),
        });
        let (mut rng, all) = (fastrand::Rng::with_seed(seed), shared.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (shared, rng) = (all.clone(), rng.fork());
                tokio::spawn(async move {
                    // A connection that a server has ended is one more fault of the line.
                    let _ = shared.pass(client, rng).await;
                });
            }
        });
        Ok(Self {
            address,
            shared,
            accepting,
        })
    }

    /// Returns where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on nothing happens to requests.
    pub fn calm(&self) {
        self.shared.calm.store(true, Ordering::SeqCst);
    }

    /// Returns how often each fault has happened.
    pub fn happened(&self) -> BTreeMap<Fault, u64> {
        let happened = self.shared.happened.lock();
        happened.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Shared {
    fn note(&self, fault: Fault) {
        let mut happened = self.happened.lock().unwrap_or_else(PoisonError::into_inner);
        *happened.entry(fault).or_default() += 1;
    }

    fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    async fn pass(&self, mut client: TcpStream, mut rng: fastrand::Rng) -> io::Result<()> {
        let request = with_close(read_request(&mut client).await?);
        let mut order = self.servers.clone();
        rng.shuffle(&mut order);
        let (Some(&one), Some(&other)) = (order.first(), order.last()) else {
            return Ok(());
        };
        if request.starts_with(b"GET /v1/changes") {
            return self.stream(client, &request, one, rng).await;
        }
        let fault = match self.is_calm() {
            true => Fault::None,
            false => Fault::draw(&mut rng),
        };
        self.note(fault);
        let late = Duration::from_millis(rng.u64(1..LATEST));
        let answer = match fault {
            Fault::CutRequest => {
                let part = rng.usize(..request.len());
                let mut server = TcpStream::connect(one).await?;
                server
                    .write_all(request.get(..part).unwrap_or_default())
                    .await?;
                return Ok(());
            }
            Fault::DelayRequest => {
                sleep(late).await;
                exchange(one, &request).await?
            }
            Fault::Repeat => {
                let first = exchange(one, &request).await;
                let second = exchange(other, &request).await;
                if rng.bool() { first? } else { second? }
            }
            Fault::RepeatTogether => {
                let both = tokio::join!(exchange(one, &request), exchange(other, &request));
                if rng.bool() { both.0? } else { both.1? }
            }
            _ => exchange(one, &request).await?,
        };
        let mut whole = answer.len();
        match fault {
            Fault::CutAnswer => whole = rng.usize(..answer.len().max(1)),
            Fault::DelayAnswer => sleep(late).await,
            _ => {}
        }
        client
            .write_all(answer.get(..whole).unwrap_or_default())
            .await
    }

    /// Passes a stream on until it is cut.
    async fn stream(
        &self,
        mut client: TcpStream,
        request: &[u8],
        server: SocketAddr,
        mut rng: fastrand::Rng,
    ) -> io::Result<()> {
        let mut server = TcpStream::connect(server).await?;
        server.write_all(request).await?;
        let end = Instant::now() + Duration::from_millis(rng.u64(20..STREAM));
        let mut left = rng.usize(100..30_000);
        let mut piece = vec![0; 4096];
        loop {
            let calm = self.is_calm();
            let most = if calm {
                piece.len()
            } else {
                left.min(piece.len())
            };
            let read = server.read(piece.get_mut(..most).unwrap_or_default());
            let wait = match calm {
                true => Duration::from_millis(100),
                false => end.saturating_duration_since(Instant::now()),
            };
            match timeout(wait, read).await {
                Ok(Ok(0)) => return Ok(()),
                Ok(read) => {
                    let read = read?;
                    client
                        .write_all(piece.get(..read).unwrap_or_default())
                        .await?;
                    left = left.saturating_sub(read);
                }
                Err(_) if self.is_calm() => {}
                Err(_) => left = 0,
            }
            if left == 0 && !self.is_calm() {
                self.note(Fault::CutStream);
                return Ok(());
            }
        }
    }
}

/// Sends a request, and returns the answer as it is.
async fn exchange(server: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
    let work = async {
        let mut server = TcpStream::connect(server).await?;
        server.write_all(request).await?;
        let mut answer = Vec::new();
        server.read_to_end(&mut answer).await?;
        Ok(answer)
    };
    timeout(ANSWER, work).await.map_err(io::Error::other)?
}

/// Asks the server to close the connection after its answer: clients keep theirs open.
fn with_close(request: Vec<u8>) -> Vec<u8> {
    let end = request.windows(4).position(|four| four == b"\r\n\r\n");
    let Some((head, rest)) = end.and_then(|end| request.split_at_checked(end)) else {
        return request;
    };
    [head, b"\r\nConnection: close", rest].concat()
}

/// Reads a request to its end.
async fn read_request(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    loop {
        if let Some(end) = super::client::end_of(&request)
            && request.len() >= end
        {
            return Ok(request);
        }
        if client.read_buf(&mut request).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
