//! [`Proxy`]: a path to servers that can be cut, go silent, or lose bytes: a partition between one
//! store and all servers. It can also change the answers of a server.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
};

use crate::BoxError;

/// The state of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Open,
    /// Connections end, and new ones end at once.
    Cut,
    /// Nothing comes through and nothing ends.
    Silent,
}

#[derive(Debug, Clone, Copy)]
struct State {
    way: Way,
    /// Connections that are older than the last cut have ended.
    cuts: u64,
    /// Those that are older than the last loss never bring anything again.
    losses: u64,
}

/// Bytes of a server, and their replacement of the same length.
type Instead = Option<(Vec<u8>, Vec<u8>)>;

/// Finds the request whose answer is to be lost.
#[derive(Debug, Default)]
struct Trap {
    /// The bytes of that request; `None` when it was found.
    bytes: Option<Vec<u8>>,
    /// How many requests were found.
    caught: u64,
}

type SharedTrap = Arc<Mutex<Trap>>;

/// Where a connection leads.
#[derive(Debug, Clone)]
struct End {
    server: String,
    instead: Instead,
    trap: SharedTrap,
}

/// One address for each server, which leads to it while the path is open.
#[derive(Debug)]
pub struct Proxy {
    addresses: Vec<String>,
    state: Arc<watch::Sender<State>>,
    trap: SharedTrap,
    accepting: Vec<JoinHandle<()>>,
}

impl Proxy {
    /// A way to each of these servers (`HOST:PORT`).
    ///
    /// # Errors
    ///
    /// When there is no port.
    pub async fn to(servers: &[String]) -> Result<Self, BoxError> {
        Self::telling(servers, None).await
    }

    /// Returns a path to servers on which `instead.1` replaces `instead.0` in their answers.
    ///
    /// # Errors
    ///
    /// When there is no port.
    pub async fn telling(servers: &[String], instead: Instead) -> Result<Self, BoxError> {
        let open = State {
            way: Way::Open,
            cuts: 0,
            losses: 0,
        };
        let state = Arc::new(watch::Sender::new(open));
        let trap = SharedTrap::default();
        let (mut addresses, mut accepting) = (Vec::new(), Vec::new());
        for server in servers {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            addresses.push(listener.local_addr()?.to_string());
            let state = state.clone();
            let end = End {
                server: server.clone(),
                instead: instead.clone(),
                trap: trap.clone(),
            };
            accepting.push(tokio::spawn(async move {
                while let Ok((inside, _)) = listener.accept().await {
                    tokio::spawn(pass(inside, end.clone(), state.subscribe()));
                }
            }));
        }
        Ok(Self {
            addresses,
            state,
            trap,
            accepting,
        })
    }

    /// Returns the address of the path to the first server.
    pub fn endpoint(&self) -> &str {
        self.addresses.first().map_or("", String::as_str)
    }

    /// The URL of a namespace, by this way.
    pub fn url(&self, namespace: &str) -> String {
        format!("etcd://{}/{namespace}", self.addresses.join(","))
    }

    /// Ends all connections, including new ones.
    pub fn cut(&self) {
        self.state.send_modify(|state| {
            state.way = Way::Cut;
            state.cuts += 1;
        });
    }

    /// Lets nothing through any more; connections stay, and new ones are made.
    pub fn silence(&self) {
        self.state.send_modify(|state| state.way = Way::Silent);
    }

    /// Loses every byte from now on, in both directions, and ends no connection. Those that are open
    /// now stay silent for ever; those that are made after [`mend`](Self::mend) work.
    pub fn lose(&self) {
        self.state.send_modify(|state| {
            state.way = Way::Silent;
            state.losses += 1;
        });
    }

    /// Lets the next request that holds these bytes through, and loses its answer: its connection
    /// never brings anything again, and does not end. Other connections are not touched.
    pub fn lose_answer_to(&self, bytes: &[u8]) {
        lock(&self.trap).bytes = Some(bytes.to_vec());
    }

    /// Returns how many requests [`lose_answer_to`](Self::lose_answer_to) has caught so far.
    pub fn lost_answers(&self) -> u64 {
        lock(&self.trap).caught
    }

    /// Opens the path again. Bytes that a silence held back arrive late, as with TCP.
    pub fn mend(&self) {
        self.state.send_modify(|state| state.way = Way::Open);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        for accepting in &self.accepting {
            accepting.abort();
        }
        self.cut();
    }
}

/// One connection.
async fn pass(inside: TcpStream, end: End, mut state: watch::Receiver<State>) {
    let End {
        server,
        instead,
        trap,
    } = end;
    let is_deaf = AtomicBool::new(false);
    let born = *state.borrow();
    if born.way == Way::Cut {
        return;
    }
    let ended = {
        let mut state = state.clone();
        async move { state.wait_for(|s| s.cuts != born.cuts).await.map(|_| ()) }
    };
    let through = async {
        state.wait_for(|s| s.way == Way::Open).await.ok()?;
        let outside = TcpStream::connect(server).await.ok()?;
        // As quick as without a proxy.
        inside.set_nodelay(true).ok()?;
        outside.set_nodelay(true).ok()?;
        let ((from_in, to_in), (from_out, to_out)) = (inside.into_split(), outside.into_split());
        // Losses before this connection do not affect it.
        let losses = state.borrow().losses;
        // One half that ends lets the other continue.
        tokio::join!(
            copy(from_in, to_out, state.clone(), losses, |bytes| {
                if is_caught(bytes, &trap) {
                    is_deaf.store(true, Ordering::Relaxed);
                }
                true
            }),
            copy(from_out, to_in, state.clone(), losses, |bytes| {
                if let Some(instead) = &instead {
                    replace(bytes, instead);
                }
                !is_deaf.load(Ordering::Relaxed)
            }),
        );
        Some(())
    };
    tokio::select! {
        _ = ended => {}
        _ = through => {}
    }
}

fn lock(trap: &SharedTrap) -> std::sync::MutexGuard<'_, Trap> {
    trap.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this is the request whose answer is to be lost.
fn is_caught(bytes: &[u8], trap: &SharedTrap) -> bool {
    let mut trap = lock(trap);
    let holds = |of: &Vec<u8>| bytes.windows(of.len()).any(|part| part == of.as_slice());
    let is_caught = trap.bytes.take_if(|of| holds(of)).is_some();
    trap.caught += u64::from(is_caught);
    is_caught
}

/// Copies one direction; `look` may change the bytes, and returns whether to continue.
async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<State>,
    losses: u64,
    look: impl Fn(&mut [u8]) -> bool,
) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count) = from.read(&mut buffer).await {
        let passes = |s: &State| s.way == Way::Open || s.losses != losses;
        let is_lost = match state.wait_for(passes).await {
            Ok(state) => state.losses != losses,
            Err(_) => return,
        };
        if is_lost && count == 0 {
            // An end is not passed on either. A cut ends it.
            return std::future::pending().await;
        }
        if is_lost {
            continue;
        }
        let bytes = &mut buffer[..count];
        if !look(bytes) {
            continue;
        }
        if count == 0 || to.write_all(bytes).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

fn replace(bytes: &mut [u8], (said, told): &(Vec<u8>, Vec<u8>)) {
    let mut at = 0;
    while at + said.len() <= bytes.len() {
        if bytes[at..].starts_with(said) {
            bytes[at..at + said.len()].copy_from_slice(told);
        }
        at += 1;
    }
}
