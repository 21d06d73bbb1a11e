# The image of the service (`resift serve`), smaller than 200 MB. It contains no compiler and no package manager, does not
# run as root, and works with a read-only root filesystem.
#   export RESIFT_API_KEY=rsf_$(openssl rand -hex 32)
#   docker build -t resift . && docker run --read-only --tmpfs /tmp -p 8080:8080 -e RESIFT_API_KEY -e OPENSEARCH_URL=http://… resift
# With --build-arg LOCK=requirements-review.lock it also contains the packages for reviews, about 150 MB.

# Pinned by digest. Dependabot updates it to the newest build of the tag.
FROM python:3.12-slim@sha256:229a2c5bfa27522db7815ea81f9bed70af17ccb9de9fc7ad142b1877b5830d36 AS base

FROM base AS build
RUN python -m venv /opt/resift
ARG LOCK=requirements-core.lock
COPY $LOCK /src/
RUN /opt/resift/bin/pip install --no-cache-dir --require-hashes -r /src/$LOCK
COPY . /src/
RUN /opt/resift/bin/pip install --no-cache-dir --no-deps --no-build-isolation /src \
    # opensearch-py requires grpcio, opensearch-protobufs and protobuf for gRPC, which Resift does not use.
    && /opt/resift/bin/pip uninstall --yes grpcio opensearch-protobufs protobuf setuptools pip \
    && find /opt/resift -depth -type d -name tests -exec rm -r {} +

# Files deleted in this stage are in no layer of the final image, which copies the remaining files.
FROM base AS system
RUN useradd --uid 1000 --create-home resift && install -d -o resift -g resift /data \
    && cd /usr/local/lib/python3.12 && rm -rf site-packages/* ensurepip idlelib lib2to3 tkinter turtledemo \
    && cd / && rm -rf usr/share/doc usr/share/man usr/share/locale usr/share/info usr/share/perl* var/cache/* var/lib/apt \
    usr/lib/apt usr/lib/*/gconv usr/lib/*/perl* usr/lib/*/libapt* usr/bin/apt* usr/bin/dpkg* usr/bin/perl* usr/local/bin/pip*

FROM scratch
COPY --from=system / /
COPY --from=build /opt/resift /opt/resift
USER resift
# Commands write to the working directory by default: API keys, refused documents, a trained reranker.
WORKDIR /data
ENV PATH=/opt/resift/bin:/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    # One thread for matrix products, which are small. The worker processes use the other cores.
    OPENBLAS_NUM_THREADS=1 RESIFT_STORE=/data/sessions.db
VOLUME /data
EXPOSE 8080

HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]

CMD ["resift", "serve", "--host", "0.0.0.0", "--port", "8080"]
