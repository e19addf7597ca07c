//! A proxy that can be cut (a partition), can swallow what passes (a path that went silent with its
//! connections open), and can tell something else than the server said.

use std::sync::Arc;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    sync::watch,
    task::JoinHandle,
};

#[derive(Debug, Clone, Copy, Default)]
struct Mode {
    cut: bool,
    /// New connections are silent too.
    silent: bool,
    /// How often all that were open went silent.
    swallowed: u32,
}

/// What the server says, and what is told instead: of the same length.
type Instead = Option<(Vec<u8>, Vec<u8>)>;

pub(crate) struct Proxy {
    address: String,
    mode: Arc<watch::Sender<Mode>>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn to(server: String) -> Self {
        Self::telling(server, None).await
    }

    /// A server that says `instead.1` where the real one says `instead.0`.
    pub(crate) async fn telling(server: String, instead: Instead) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mode = Arc::new(watch::Sender::new(Mode::default()));
        let switch = mode.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((inside, _)) = listener.accept().await {
                let (server, mode) = (server.clone(), switch.subscribe());
                tokio::spawn(connection(inside, server, mode, instead.clone()));
            }
        });
        Self {
            address,
            mode,
            accepting,
        }
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.address
    }

    pub(crate) fn url(&self, namespace: &str) -> String {
        format!("etcd://{}/{namespace}", self.address)
    }

    pub(crate) fn cut(&self) {
        self.mode.send_modify(|mode| mode.cut = true);
    }

    /// Swallows every byte from now on, in both directions, and ends no connection. Those that are
    /// open now stay silent for ever; those that are made after [`mend`](Self::mend) work.
    pub(crate) fn swallow(&self) {
        self.mode.send_modify(|mode| {
            mode.silent = true;
            mode.swallowed += 1;
        });
    }

    pub(crate) fn mend(&self) {
        self.mode
            .send_modify(|mode| (mode.cut, mode.silent) = (false, false));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn connection(
    inside: TcpStream,
    server: String,
    mut mode: watch::Receiver<Mode>,
    instead: Instead,
) {
    // A connection made while it is cut ends at once.
    let begun = *mode.borrow();
    if begun.cut {
        return;
    }
    let Ok(outside) = TcpStream::connect(server).await else {
        return;
    };
    let (from_client, to_client) = inside.into_split();
    let (from_server, to_server) = outside.into_split();
    let silent = {
        let mut mode = mode.clone();
        async move {
            let is_silent = |mode: &Mode| begun.silent || mode.swallowed > begun.swallowed;
            let _ = mode.wait_for(is_silent).await;
        }
    };
    // Held beyond the end of the copying: silence is not the end of a connection.
    let mut ends = (from_client, to_client, from_server, to_server);
    let copying = async {
        let (from_client, to_client, from_server, to_server) =
            (&mut ends.0, &mut ends.1, &mut ends.2, &mut ends.3);
        tokio::select! {
            () = copy(from_client, to_server, None) => {}
            () = copy(from_server, to_client, instead) => {}
        }
    };
    let swallows = tokio::select! {
        () = copying => false,
        () = silent => true,
        _ = mode.wait_for(|mode| mode.cut) => false,
    };
    if swallows {
        let (mut nowhere, mut nothing) = (tokio::io::sink(), tokio::io::sink());
        tokio::select! {
            // It ends when both have given it up.
            _ = async {
                let _ = tokio::join!(
                    tokio::io::copy(&mut ends.0, &mut nowhere),
                    tokio::io::copy(&mut ends.2, &mut nothing),
                );
            } => {}
            _ = mode.wait_for(|mode| mode.cut) => {}
        }
    }
}

async fn copy(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, instead: Instead) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let Ok(count @ 1..) = from.read(&mut bytes).await else {
            return;
        };
        let some = &mut bytes[..count];
        if let Some((said, told)) = &instead {
            let mut at = 0;
            while at + said.len() <= some.len() {
                if some[at..].starts_with(said) {
                    some[at..at + said.len()].copy_from_slice(told);
                }
                at += 1;
            }
        }
        if to.write_all(some).await.is_err() {
            return;
        }
    }
}
