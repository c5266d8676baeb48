//! The server: what tonic's code generator would write, and methods in direct style.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;

use bast::future::Wait;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, NamedService, ServerStreamingService, StreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::direct::{Incoming, OnFiber, Produced, answer, produce};
use super::{Addition, NAME, Number};
use crate::Fault;

/// The fibers of methods that have not ended.
#[derive(Clone, Debug, Default)]
pub struct Running(Arc<AtomicUsize>);

impl Running {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.load(SeqCst)
    }

    fn one_more(&self) -> OneMore {
        self.0.fetch_add(1, SeqCst);
        OneMore(self.clone())
    }
}

struct OneMore(Running);

impl Drop for OneMore {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, SeqCst);
    }
}

/// `Add`: thinks, and answers with the sum. Negative numbers are no good, and 42 is a bug.
fn add(addition: Addition) -> Result<Number, Status> {
    bast::sleep(Duration::from_millis(addition.millis));
    if addition.a < 0 || addition.b < 0 {
        return Err(Status::invalid_argument("negative numbers cannot be added here"));
    }
    assert_ne!(addition.a, 42, "on purpose");
    Ok(Number { value: addition.a.saturating_add(addition.b) })
}

/// `Count`: 1, 2, 3, …, as long as somebody listens.
fn count(up_to: i64, send: impl Fn(Number) -> bool) {
    for value in 1..=up_to {
        if !send(Number { value }) {
            return;
        }
    }
}

/// `Sum`: after each number the sum so far.
fn sum(
    numbers: impl Iterator<Item = Result<Number, Status>>,
    send: impl Fn(Result<Number, Status>) -> bool,
) {
    let mut sum = 0_i64;
    for number in numbers {
        let so_far = number.map(|number| {
            sum = sum.saturating_add(number.value);
            Number { value: sum }
        });
        if !send(so_far) {
            return;
        }
    }
}

#[derive(Clone)]
struct Sums(Running);

struct Add(Running);

impl UnaryService<Addition> for Add {
    type Response = Number;
    type Future = BoxFuture<Response<Number>, Status>;

    fn call(&mut self, request: Request<Addition>) -> Self::Future {
        let one = self.0.one_more();
        let answer: OnFiber<Number> = answer(move || {
            let _one = one;
            add(request.into_inner())
        });
        Box::pin(async { answer.await.map(Response::new) })
    }
}

type Messages = Produced<Result<Number, Status>>;

struct Count(Running);

impl ServerStreamingService<Number> for Count {
    type Response = Number;
    type ResponseStream = Messages;
    type Future = std::future::Ready<Result<Response<Messages>, Status>>;

    fn call(&mut self, request: Request<Number>) -> Self::Future {
        let one = self.0.one_more();
        std::future::ready(Ok(Response::new(produce(move |out| {
            let _one = one;
            count(request.into_inner().value, |number| out.send(Ok(number)));
        }))))
    }
}

struct Sum(Running);

impl StreamingService<Number> for Sum {
    type Response = Number;
    type ResponseStream = Messages;
    type Future = std::future::Ready<Result<Response<Messages>, Status>>;

    fn call(&mut self, request: Request<Streaming<Number>>) -> Self::Future {
        let one = self.0.one_more();
        std::future::ready(Ok(Response::new(produce(move |out| {
            let _one = one;
            sum(Incoming(request.into_inner()), |number| out.send(number));
        }))))
    }
}

impl NamedService for Sums {
    const NAME: &'static str = NAME;
}

impl Service<http::Request<Body>> for Sums {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let running = self.0.clone();
        Box::pin(async move {
            let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            Ok(match method.as_str() {
                "Add" => Grpc::new(ProstCodec::default()).unary(Add(running), request).await,
                "Count" => {
                    let mut grpc = Grpc::new(ProstCodec::default());
                    grpc.server_streaming(Count(running), request).await
                }
                "Sum" => Grpc::new(ProstCodec::default()).streaming(Sum(running), request).await,
                _ => Status::unimplemented(format!("no method {method:?}")).into_http(),
            })
        })
    }
}

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub addr: SocketAddr,
    /// The fibers of its methods.
    pub running: Running,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Server {
    /// Starts it; port 0 takes a free one.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn start(addr: SocketAddr) -> std::io::Result<Server> {
        bast_tokio::run(|| {
            let listener = TcpListener::bind(addr).wait()?;
            let addr = listener.local_addr()?;
            let running = Running::default();
            let (stop, stopped) = oneshot::channel();
            let serving = tonic::transport::Server::builder()
                .add_service(Sums(running.clone()))
                .serve_with_incoming_shutdown(TcpListenerStream::new(listener), async {
                    // Dropped without a word is as good.
                    let _ = stopped.await;
                });
            Ok(Server { addr, running, stop, ended: bast_tokio::spawn(serving) })
        })
    }

    /// Accepts nothing more, and waits until all calls have ended.
    ///
    /// # Errors
    /// What ended it before.
    pub fn stop(self) -> Result<(), Fault> {
        // It has ended already if nobody receives that.
        let _ = self.stop.send(());
        Ok(self.ended.wait()??)
    }
}
