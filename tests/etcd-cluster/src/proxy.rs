//! [`Proxy`]: a way to servers that can be cut, or fall silent: a partition between one store and
//! all of them.

use std::sync::Arc;

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

/// How the way is.
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
}

/// One address for each server, which lead there as long as the way is open.
#[derive(Debug)]
pub struct Proxy {
    addresses: Vec<String>,
    state: Arc<watch::Sender<State>>,
    accepting: Vec<JoinHandle<()>>,
}

impl Proxy {
    /// A way to each of these servers (`HOST:PORT`).
    ///
    /// # Errors
    ///
    /// When there is no port.
    pub async fn to(servers: &[String]) -> Result<Self, BoxError> {
        let open = State {
            way: Way::Open,
            cuts: 0,
        };
        let state = Arc::new(watch::Sender::new(open));
        let (mut addresses, mut accepting) = (Vec::new(), Vec::new());
        for server in servers {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            addresses.push(listener.local_addr()?.to_string());
            let (server, state) = (server.clone(), state.clone());
            accepting.push(tokio::spawn(async move {
                while let Ok((inside, _)) = listener.accept().await {
                    tokio::spawn(pass(inside, server.clone(), state.subscribe()));
                }
            }));
        }
        Ok(Self {
            addresses,
            state,
            accepting,
        })
    }

    /// The URL of a namespace, by this way.
    pub fn url(&self, namespace: &str) -> String {
        format!("etcd://{}/{namespace}", self.addresses.join(","))
    }

    /// Ends all connections, and all new ones.
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

    /// Opens the way again. What was held back by a silence comes late, as it does by TCP.
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
async fn pass(inside: TcpStream, server: String, mut state: watch::Receiver<State>) {
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
        // One half that ends lets the other go on.
        tokio::join!(
            copy(from_in, to_out, state.clone()),
            copy(from_out, to_in, state.clone()),
        );
        Some(())
    };
    tokio::select! {
        _ = ended => {}
        _ = through => {}
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut state: watch::Receiver<State>) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count) = from.read(&mut buffer).await {
        if state.wait_for(|s| s.way == Way::Open).await.is_err() {
            return;
        }
        if count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
