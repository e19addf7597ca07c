//! What a member answers, as messages of gRPC. Nothing goes through HTTP/2: requests and answers are handed over.

use std::sync::Arc;

use etcd_client::proto::{
    PbAlarmResponse, PbLeaseKeepAliveRequest, PbWatchRequest, PbWatchResponse,
};
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::{StreamExt, wrappers::UnboundedReceiverStream};
use tonic::{Request, Response, Status, Streaming, body::Body, server::Grpc};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::{server::Servers, watchers};

/// What an HTTP request to a member is here.
pub(crate) type Call = http::Request<Body>;
/// What it answers.
pub(crate) type Answer = http::Response<Body>;

/// Answers with one message.
async fn unary<Q, A, F>(call: Call, serve: impl Fn(Q) -> F + Send + Sync) -> Answer
where
    Q: Message + Default + Send + 'static,
    A: Message + Default + Send + 'static,
    F: Future<Output = Result<A, Status>> + Send,
{
    let serve = &serve;
    let service = service_fn(move |request: Request<Q>| async move {
        serve(request.into_inner()).await.map(Response::new)
    });
    let mut grpc = Grpc::new(ProstCodec::<A, Q>::default());
    grpc = grpc.max_decoding_message_size(usize::MAX);
    grpc.unary(service, call).await
}

/// Answers with one message, as soon as there is a leader.
async fn agreed<Q, A>(
    servers: &Servers,
    call: Call,
    serve: impl Fn(&Servers, &Q) -> Result<A, Status> + Send + Sync,
) -> Answer
where
    Q: Message + Default + Send + Sync + 'static,
    A: Message + Default + Send + 'static,
{
    let serve = &serve;
    unary(call, move |q: Q| async move {
        servers.quorum().await?;
        serve(servers, &q)
    })
    .await
}

/// Returns whether the requests of a path, or its answers, are a stream.
pub(crate) fn is_stream(path: &str) -> bool {
    matches!(
        path,
        "/etcdserverpb.Watch/Watch" | "/etcdserverpb.Lease/LeaseKeepAlive"
    )
}

/// Carries out a request of a process at a member.
pub(crate) async fn answer(servers: &Arc<Servers>, ends: (usize, usize), call: Call) -> Answer {
    let (process, member) = ends;
    let path = call.uri().path().to_owned();
    match path.as_str() {
        "/etcdserverpb.KV/Range" => agreed(servers, call, Servers::range).await,
        "/etcdserverpb.KV/Put" => agreed(servers, call, Servers::put).await,
        "/etcdserverpb.KV/Txn" => agreed(servers, call, Servers::txn).await,
        "/etcdserverpb.KV/Compact" => agreed(servers, call, Servers::compact).await,
        "/etcdserverpb.Lease/LeaseGrant" => {
            agreed(servers, call, |servers, q| servers.grant(process, q)).await
        }
        "/etcdserverpb.Lease/LeaseRevoke" => agreed(servers, call, Servers::revoke).await,
        "/etcdserverpb.Lease/LeaseTimeToLive" => agreed(servers, call, Servers::time_to_live).await,
        "/etcdserverpb.Maintenance/Status" => {
            unary(call, |(): ()| async move { Ok(servers.status(member)) }).await
        }
        "/etcdserverpb.Maintenance/Alarm" => {
            unary(call, |(): ()| async move { Ok(PbAlarmResponse::default()) }).await
        }
        "/etcdserverpb.Watch/Watch" => watch(servers.clone(), ends, call).await,
        "/etcdserverpb.Lease/LeaseKeepAlive" => keep_alive(servers.clone(), call).await,
        _ => Status::unimplemented(format!("the model of etcd does not know {path}")).into_http(),
    }
}

/// A stream of watches.
async fn watch(servers: Arc<Servers>, ends: (usize, usize), call: Call) -> Answer {
    let service = service_fn(move |request: Request<Streaming<PbWatchRequest>>| {
        let servers = servers.clone();
        async move {
            let mut requests = request.into_inner();
            let (answers, to_client) = mpsc::unbounded_channel();
            let mut stream = watchers::Stream::open(&servers, ends, answers.clone());
            tokio::spawn(async move {
                loop {
                    tokio::select! {
                        biased;
                        () = answers.closed() => break,
                        () = servers.no_leader() => {
                            let _ = answers.send(Err(Status::unavailable("etcdserver: no leader")));
                            break;
                        }
                        request = requests.next() => match request {
                            Some(Ok(PbWatchRequest { request_union: Some(request) })) => {
                                stream.request(&servers, request);
                            }
                            Some(Ok(_)) => {}
                            // The client sends no more requests, or is gone.
                            _ => {
                                answers.closed().await;
                                break;
                            }
                        },
                    }
                }
                stream.close(&servers);
            });
            Ok::<_, Status>(Response::new(UnboundedReceiverStream::new(to_client)))
        }
    });
    let mut grpc = Grpc::new(ProstCodec::<PbWatchResponse, PbWatchRequest>::default());
    grpc.streaming(service, call).await
}

/// A stream of renewals.
async fn keep_alive(servers: Arc<Servers>, call: Call) -> Answer {
    let service = service_fn(
        move |request: Request<Streaming<PbLeaseKeepAliveRequest>>| {
            let servers = servers.clone();
            async move {
                let answers = request.into_inner().then(move |request| {
                    let servers = servers.clone();
                    async move {
                        servers.quorum().await?;
                        Ok(servers.keep_alive(&request?))
                    }
                });
                Ok::<_, Status>(Response::new(Box::pin(answers)))
            }
        },
    );
    let mut grpc = Grpc::new(ProstCodec::<_, PbLeaseKeepAliveRequest>::default());
    grpc.streaming(service, call).await
}
