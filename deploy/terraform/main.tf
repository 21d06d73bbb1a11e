# Roles are created by OpenSearch's provider. It has no resources for search pipelines and ML Commons' settings, so these
# are created by the command `resift`. The command must be installed where Terraform runs, and reads credentials from
# environment variables such as OPENSEARCH_USER.
terraform {
  required_providers {
    opensearch = {
      source  = "opensearch-project/opensearch"
      version = "~> 2.3"
    }
  }
}

variable "opensearch_url" { type = string }

variable "service_url" {
  description = "URL under which the cluster's nodes reach the service (resift serve)."
  type        = string
}

variable "indices" {
  description = "Indices, aliases or patterns whose searches are rewritten."
  type        = set(string)
}

variable "service_users" {
  description = "Users, or backend roles, with which the service calls the cluster."
  type        = list(string)
  default     = ["resift"]
}

provider "opensearch" { url = var.opensearch_url }

locals {
  # resift role serve --indices 'blog,products-*' > serve.json
  role = jsondecode(file("${path.module}/serve.json"))
}

resource "opensearch_role" "serve" {
  role_name           = "resift-serve"
  description         = local.role.description
  cluster_permissions = local.role.cluster_permissions
  dynamic "index_permissions" {
    for_each = local.role.index_permissions
    content {
      index_patterns  = index_permissions.value.index_patterns
      allowed_actions = index_permissions.value.allowed_actions
    }
  }
}

resource "opensearch_roles_mapping" "serve" {
  role_name = opensearch_role.serve.role_name
  users     = var.service_users
}

resource "terraform_data" "installation" {
  input = { url = var.opensearch_url, service_url = var.service_url }
  provisioner "local-exec" {
    command     = "resift install --service \"$SERVICE_URL\" --settings"
    environment = { OPENSEARCH_URL = self.input.url, SERVICE_URL = self.input.service_url }
  }
  provisioner "local-exec" {
    when        = destroy
    command     = "resift uninstall --yes"
    environment = { OPENSEARCH_URL = self.input.url }
  }
}

# Start the service first: resift attach fails with status 3 if the nodes cannot reach it.
resource "terraform_data" "attached" {
  for_each   = var.indices
  input      = { url = var.opensearch_url, index = each.value }
  depends_on = [terraform_data.installation]
  provisioner "local-exec" {
    command     = "resift attach \"$INDEX\" --default-pipelines --yes"
    environment = { OPENSEARCH_URL = self.input.url, INDEX = self.input.index }
  }
  provisioner "local-exec" {
    when        = destroy
    command     = "resift detach \"$INDEX\" --yes"
    environment = { OPENSEARCH_URL = self.input.url, INDEX = self.input.index }
  }
}
