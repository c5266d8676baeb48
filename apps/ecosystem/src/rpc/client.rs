//! The client, in direct style: calls return answers, and streams are iterators.

use std::time::Duration;

use bast::future::Wait;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::direct::{Incoming, Outgoing, produce};
use super::{Addition, NAME, Number};
use crate::{Fault, told};

/// A connection, shared by all clones; each fiber takes one.
#[derive(Clone, Debug)]
pub struct Client(Grpc<Channel>);

impl Client {
    /// Connects to `http://HOST:PORT`.
    ///
    /// # Errors
    /// Nobody answers there; the text says what to do.
    pub fn connect(url: &str) -> Result<Client, Fault> {
        bast_tokio::run(|| {
            let channel = Endpoint::from_shared(url.to_owned())?.connect().wait();
            let channel = channel.map_err(|fault| {
                format!("cannot connect to {url}: {} (`ecosystem rpc --listen …`)", told(&fault))
            })?;
            Ok(Client(Grpc::new(channel)))
        })
    }

    /// The sum, within this time if one is given: afterwards the server gives up, too.
    ///
    /// # Errors
    /// The server's status, or that of a broken connection.
    ///
    /// # Cancellation
    /// A suspension point; the server is told to give up.
    pub fn add(&mut self, addition: Addition, within: Option<Duration>) -> Result<Number, Status> {
        let mut request = Request::new(addition);
        within.into_iter().for_each(|time| request.set_timeout(time));
        bast_tokio::run(|| {
            self.ready()?;
            let answer = self.0.unary(request, path("Add"), ProstCodec::default()).wait()?;
            Ok(answer.into_inner())
        })
    }

    /// The numbers from 1 up to this one. The server stops when the iterator is dropped.
    ///
    /// # Errors
    /// As [`add`](Client::add); so does each number.
    pub fn count(&mut self, up_to: i64) -> Result<Incoming<Number>, Status> {
        bast_tokio::run(|| {
            self.ready()?;
            let request = Request::new(Number { value: up_to });
            let codec = ProstCodec::default();
            let answer = self.0.server_streaming(request, path("Count"), codec).wait()?;
            Ok(Incoming(answer.into_inner()))
        })
    }

    /// Sends numbers from a fiber of their own, while the sums come back.
    ///
    /// # Errors
    /// As [`count`](Client::count).
    pub fn sum(
        &mut self,
        numbers: impl FnOnce(&Outgoing<Number>) + Send + 'static,
    ) -> Result<Incoming<Number>, Status> {
        bast_tokio::run(|| {
            self.ready()?;
            let request = Request::new(produce(numbers));
            let answer = self.0.streaming(request, path("Sum"), ProstCodec::default()).wait()?;
            Ok(Incoming(answer.into_inner()))
        })
    }

    fn ready(&mut self) -> Result<(), Status> {
        self.0.ready().wait().map_err(|fault| Status::unavailable(told(&fault)))
    }
}

fn path(method: &str) -> PathAndQuery {
    format!("/{NAME}/{method}").parse().expect("a path")
}
