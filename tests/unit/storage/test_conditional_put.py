"""The S3 server of the tests: of several writers that create one object at the same time, one succeeds."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from s3_server import new_bucket
from weft.store import S3Access

WRITERS = 2


@pytest.mark.parametrize("races", [100, pytest.param(10_000, marks=pytest.mark.slow)])
def test_one_of_several_writers_creates_an_object(s3_access: S3Access, races: int) -> None:
    bucket = new_bucket(s3_access).path
    client = boto3.client(
        "s3",
        endpoint_url=s3_access.endpoint,
        region_name=s3_access.region,
        aws_access_key_id=s3_access.key,
        aws_secret_access_key=s3_access.secret,
        config=Config(retries={"total_max_attempts": 1}, max_pool_connections=WRITERS),
    )
    start = threading.Barrier(WRITERS)

    def put(race: int, writer: int) -> bool:
        start.wait()
        try:
            client.put_object(Bucket=bucket, Key=str(race), Body=str(writer).encode(), IfNoneMatch="*")
        except ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] in (409, 412), error
            return False
        return True

    close = 0
    with ThreadPoolExecutor(WRITERS) as threads:
        for race in range(races):
            won = list(threads.map(put, [race] * WRITERS, range(WRITERS)))
            stored = client.get_object(Bucket=bucket, Key=str(race))["Body"].read()
            assert won.count(True) == 1, f"race {race}: {won}"
            assert stored == str(won.index(True)).encode()
            close += won.index(True) != 0
    assert close, "the first writer won each race, so that no race was close"
